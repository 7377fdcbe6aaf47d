"""A PyTorch script that reads a tf.data pipeline in the form of RLDS: each episode is a data set of steps.

As in Octo and OpenVLA, the pipeline interleaves files, makes windows of neighbouring steps, and shuffles the steps of
all episodes. Here each file of the channel is an episode, and its records are the steps. `tfhet.torch.loader(ds)`
replaces the usual IterableDataset and its DataLoader.
"""

import argparse
import hashlib
import os

import torch  # before TensorFlow: the other order hangs with some versions
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

# isort: split
import tensorflow as tf

import tfhet.torch

PIXELS, WINDOW = 32 * 32 * 3, 2


def step_of(record: tf.Tensor) -> dict[str, tf.Tensor]:
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    parsed = tf.io.parse_single_example(record, features)
    image = tf.reshape(tf.io.decode_raw(parsed["image"], tf.uint8), [PIXELS])
    return {"observation": {"image": image}, "action": parsed["label"]}


def windows_of(file: tf.Tensor) -> tf.data.Dataset:
    """Windows of an episode: each step with its predecessor."""
    steps = tf.data.TFRecordDataset(file).map(step_of)
    return tf.data.Dataset.zip((steps, steps.skip(1))).map(
        lambda *window: tf.nest.map_structure(lambda *parts: tf.stack(parts), *window)
    )


def make_windows(channel: str, batch_size: int) -> tf.data.Dataset:
    files = tf.data.Dataset.list_files(f"{channel}/*.tfrecord", shuffle=True, seed=1)
    windows = files.interleave(windows_of, num_parallel_calls=tf.data.AUTOTUNE)
    return windows.shuffle(1000).batch(batch_size, drop_remainder=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch_size", type=int, default=32)
    args = parser.parse_args()
    tf.config.set_visible_devices([], "GPU")
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    loader = tfhet.torch.loader(make_windows(os.environ["SM_CHANNEL_TRAINING"], args.batch_size).repeat())
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(WINDOW * PIXELS, 10).to(device))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for step, batch in zip(range(args.steps), loader, strict=False):
        images = batch["observation"]["image"].to(device, non_blocking=True).flatten(1).float() / 255
        loss = torch.nn.functional.cross_entropy(model(images), batch["action"][:, -1].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 10 == 9:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)
    weights = b"".join(value.cpu().numpy().tobytes() for value in model.state_dict().values())
    digest, windows = hashlib.sha256(weights).hexdigest()[:16], tuple(batch["observation"]["image"].shape)
    print(f"rank={dist.get_rank()} steps={step + 1} windows={windows} weights={digest}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
