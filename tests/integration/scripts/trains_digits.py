"""Trains one small network on the digits by the strategy BY, in eight passes of batches that have 32 examples on all
ranks together. At the end it writes the accuracy on the validation data, and a digest of each rank's weights."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import numpy as np

BY = sys.argv[sys.argv.index("--by") + 1]
EPOCHS, RATE = 8, 0.003
if BY == "torch":
    import torch  # before TensorFlow, see docs/pytorch.md
    import torch.distributed as dist

# isort: split
import tensorflow as tf  # noqa: E402

if BY == "multi_worker":
    strategy: tf.distribute.Strategy = tf.distribute.MultiWorkerMirroredStrategy()
if BY == "mirrored":
    cpus = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

import tfhet  # noqa: E402
from tfhet.cluster import environment  # noqa: E402
from tfhet.source import TFRecordSource  # noqa: E402
from tfhet.strategies import JobContext  # noqa: E402

job = JobContext.from_env(environment())


def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    image = tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3])
    return tf.cast(image, tf.float32) / 255, example["label"]


def records(channel: str) -> tf.data.Dataset:
    files = sorted(tf.io.gfile.glob(f"{os.environ[f'SM_CHANNEL_{channel}']}/*.tfrecord*"))
    return tf.data.Dataset.from_tensor_slices(files).interleave(tf.data.TFRecordDataset).map(parse)


def network() -> tf.keras.Model:
    layers = tf.keras.layers
    convolution = layers.Conv2D(16, 3, strides=2, activation="relu")
    return tf.keras.Sequential([layers.Input([32, 32, 3]), convolution, layers.Flatten(), layers.Dense(10, "softmax")])


def compiled() -> tf.keras.Model:
    model = network()
    model.compile(tf.keras.optimizers.Adam(RATE), "sparse_categorical_crossentropy")
    return model


def pipeline(batch_size: int) -> tf.data.Dataset:
    source = TFRecordSource.from_directory(os.environ["SM_CHANNEL_TRAINING"])
    return tfhet.distribute(tfhet.Pipeline(source, "rescale()", batch_size=batch_size, shuffle=500))


def end(weights: list[list[np.ndarray]], right: np.ndarray) -> None:
    """Writes what this process knows. weights: those of each rank that it knows; right: of each validation example."""
    digests = [hashlib.sha256(b"".join(each.tobytes() for each in one)).hexdigest() for one in weights]
    assert job.output_dir
    file = Path(job.output_dir) / f"trained-{job.rank}.json"
    file.write_text(json.dumps({"accuracy": float(right.mean()), "digests": digests}))


def right(weights: list[np.ndarray]) -> np.ndarray:
    alone = network()
    alone.set_weights(weights)
    images, labels = next(iter(records("VALIDATION").batch(1000)))
    return alone(images).numpy().argmax(1) == labels.numpy()


def with_horovod() -> None:
    import tfhet.horovod as hvd

    hvd.init()
    data = pipeline(32 // hvd.size())
    model, optimizer = network(), tf.keras.optimizers.Adam(RATE)
    hvd.broadcast_variables(model.variables, root_rank=0)

    @tf.function
    def train(images: tf.Tensor, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, model(images)))
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for _ in range(EPOCHS):
        for images, labels in data:
            train(images, labels)
    end([model.get_weights()], right(model.get_weights()))


def with_keras() -> None:
    data = pipeline(32)
    with strategy.scope():
        model = compiled()
    model.fit(data, epochs=EPOCHS, verbose=2 if job.rank == 0 else 0)
    end([model.get_weights()], right(model.get_weights()))


def with_parameter_servers() -> None:
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.task_type == "worker":
        tf.distribute.Server(cluster.cluster_spec(), job_name="worker", task_index=cluster.task_id).join()
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = compiled()

    def dataset_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return tfhet.distribute(records("TRAINING").shuffle(500).batch(32))

    data = tf.keras.utils.experimental.DatasetCreator(dataset_fn)
    model.fit(data, steps_per_epoch=44, epochs=EPOCHS, verbose=2)

    @tf.function
    def seen() -> tuple[tf.Tensor, list[tf.Tensor]]:
        number = tf.distribute.coordinator.experimental_get_current_worker_index()
        return number, [tf.identity(each) for each in model.variables]

    every = {-1: model.get_weights()}
    while len(every) < job.size:  # whichever worker is free answers
        found = [coordinator.schedule(seen) for _ in range(job.size)]
        every |= {int(number): list(weights) for number, weights in coordinator.fetch(found)}
    end(list(every.values()), right(every[-1]))


def with_torch() -> None:
    dist.init_process_group("gloo")
    data = pipeline(32 // dist.get_world_size())
    torch.manual_seed(dist.get_rank())
    layers = torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 15 * 15, 10)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.Adam(model.parameters(), RATE)

    def scores(images: tf.Tensor) -> torch.Tensor:
        return model(torch.from_numpy(images.numpy()).permute(0, 3, 1, 2))

    for _ in range(EPOCHS):
        for images, labels in data:
            loss = torch.nn.functional.cross_entropy(scores(images), torch.from_numpy(labels.numpy()).long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    images, labels = next(iter(records("VALIDATION").batch(1000)))
    with torch.no_grad():
        found = scores(images).argmax(1).numpy() == labels.numpy()
    end([[value.numpy() for value in model.state_dict().values()]], found)
    dist.destroy_process_group()


{
    "horovod": with_horovod,
    "multi_worker": with_keras,
    "mirrored": with_keras,
    "parameter_server": with_parameter_servers,
    "torch": with_torch,
}[BY]()
