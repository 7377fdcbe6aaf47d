"""A PyTorch script whose batches come by tfhet.distribute: from the data hosts, where the job has them."""

from __future__ import annotations

import hashlib
import os

import torch  # before TensorFlow, see docs/pytorch.md
import torch.distributed as dist

# isort: split
import tensorflow as tf

import tfhet

EXAMPLES, BATCH_SIZE = 1437, 32
dist.init_process_group("gloo")


def parse(record):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32 * 32 * 3]), example["label"]


files = tf.data.Dataset.list_files(f"{os.environ['SM_CHANNEL_TRAINING']}/*.tfrecord*", shuffle=False)
ds = files.interleave(tf.data.TFRecordDataset).map(parse).batch(BATCH_SIZE, drop_remainder=True)
ds = tfhet.distribute(ds, steps_per_epoch=EXAMPLES // BATCH_SIZE // dist.get_world_size())

torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32 * 32 * 3, 10))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
steps = 0
for _ in range(2):
    for images, labels in ds:
        inputs = torch.from_numpy(images.numpy()).float() / 255
        loss = torch.nn.functional.cross_entropy(model(inputs), torch.from_numpy(labels.numpy()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
weights = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
print(f"rank={dist.get_rank()} steps={steps} weights={hashlib.sha256(weights).hexdigest()}", flush=True)
dist.destroy_process_group()
