"""One rank that does all that a collective promises, and writes what came out: `collective_ranks.py KIND SIZE FILE`.

`facts`, `trained` and `measured` run for any collective; test_collective.py compares what the ranks of each kind found.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet import MetricAverageCallback, strategies
from tfhet.pipeline import Pipeline
from tfhet.planes import Reader
from tfhet.source import SyntheticSource
from tfhet.strategies import Collective, JobContext
from tfhet.trainer.loop import Loop
from tfhet.trainer.step import Batch, KerasAccelerator

SHAPE, CLASSES = (4, 4, 1), 3
BIG = 1 << 40
UNEQUAL = ((5, 3, 0), (2, 0, 0))
"""Examples of each rank in each step; the union is 7, 3, 0."""


def facts(together: Collective) -> dict[str, Any]:
    """Every operation once, with other values on each rank."""
    rank = together.rank
    found: dict[str, Any] = {"place": (rank, together.size)}
    found["sum"] = [t.numpy() for t in together.sum([tf.constant([rank + 1.0, 2.0]), tf.constant(0.5)], "sum")]
    again = [together.sum([tf.constant(float(rank + turn))], "again")[0].numpy() for turn in range(3)]
    found["sum again"] = again

    @tf.function
    def graph(value: tf.Tensor) -> tf.Tensor:
        return 2.0 * together.sum([value], "graph")[0]

    found["sum in a graph"] = [float(graph(tf.constant(float(rank + turn)))) for turn in (1, 2)]
    variables = [tf.Variable([rank + 5.0]), tf.Variable(rank + 7, dtype=tf.int64)]
    found["sum of variables"] = together.sum(variables[:1], "variables")[0].numpy()
    together.broadcast(variables)
    found["broadcast"] = [v.numpy().tolist() for v in variables]
    together.broadcast([])
    found["total"] = together.total([rank + 1, 0.5, BIG], "total")
    found["gather"] = together.gather(np.arange(rank * 2, dtype=np.int64) + BIG * (rank + 1), "gather")
    if swap := getattr(together, "alltoall", None):
        counts = np.array([to + 1 if to else 0 for to in range(together.size)])
        found["alltoall"] = swap(np.repeat(np.arange(together.size) + BIG * rank, counts), counts, "alltoall")
        found["alltoall nothing"] = swap(np.zeros(0, np.int64), 0 * counts, "alltoall")
    found["gather nothing"] = together.gather(np.zeros(0, np.int64), "nothing")
    return found


def data(count: int, first: int) -> Batch:
    """`count` examples that depend on nothing but their number."""
    numbers = tf.range(first, first + count, dtype=tf.float32)
    pixels = tf.sin(numbers[:, tf.newaxis] * 7.0 + tf.range(16.0))
    return tf.reshape(pixels, [-1, *SHAPE]), tf.cast(numbers, tf.int64) % CLASSES


def model(normalised: bool = False) -> tf.keras.Model:
    """The same weights in every process."""
    layers = [tf.keras.layers.Input(SHAPE), tf.keras.layers.Flatten()]
    if normalised:
        layers.append(tf.keras.layers.BatchNormalization(momentum=0.5))
    layers.append(tf.keras.layers.Dense(CLASSES, activation="softmax", dtype="float32"))
    made = tf.keras.Sequential(layers)
    kernel, bias = made.layers[-1].weights
    kernel.assign(tf.reshape(tf.cos(tf.range(16.0 * CLASSES)), [16, CLASSES]))
    bias.assign(tf.range(float(CLASSES)) / 10)
    return made


def trained(together: Collective, unequal: tuple[tuple[int, ...], ...] = UNEQUAL) -> dict[str, Any]:
    """Steps on unequal shares of the same examples; a solo run takes their union."""
    found: dict[str, Any] = {}
    steps = list(zip(*unequal, strict=True))

    def share(step: int, group: int = 0) -> Batch | None:
        """This rank's part of step `step`: behind those of the ranks before it."""
        sizes = steps[step] if together.size > 1 else (sum(steps[step]),)
        count = sizes[together.rank]
        return data(count, 100 * step + 1000 * group + sum(sizes[: together.rank])) if count else None

    for name, optimizer in (("sgd", tf.keras.optimizers.SGD(0.5)), ("adam", tf.keras.optimizers.Adam(0.1))):
        accelerator = KerasAccelerator(model(), optimizer, together)
        found[f"{name} counts"] = [np.asarray(accelerator.step(share(step))) for step in range(len(steps))]
        found[f"{name} weights"] = [v.numpy() for v in accelerator.model.weights]
        found[f"{name} iterations"] = int(accelerator.optimizer.iterations)
        found[f"{name} digest"] = accelerator.digest()
    accelerator = KerasAccelerator(model(), tf.keras.optimizers.SGD(0.5), together, accumulate=True)
    for group in range(2):
        if (first := share(0, 10 + group)) is not None:
            accelerator.accumulate(first)
        if (second := share(1, 20 + group)) is not None and group == 0:
            accelerator.accumulate(second)
        accelerator.step(share(0, 30 + group))
    found["accumulated"] = [v.numpy() for v in accelerator.model.weights]

    scaled = KerasAccelerator(model(), tf.keras.optimizers.SGD(0.5), together, loss_scaling=True)
    assert scaled.loss_scale is not None
    for variable in [*scaled.model.variables, *scaled.loss_scale.variables]:  # as if rank 0 alone read a checkpoint
        variable.assign(variable * tf.cast(1 + together.rank, variable.dtype))
    together.broadcast(scaled.variables())
    scaled.step(share(0))
    found["scaled"] = [v.numpy() for v in scaled.model.weights]
    found["scaled digest"] = scaled.digest()

    normal = KerasAccelerator(model(normalised=True), tf.keras.optimizers.SGD(0.5), together)
    normal.step(share(0))
    found["statistics before"] = [v.numpy() for v in normal.model.non_trainable_variables]
    normal.average_statistics()
    found["statistics"] = [v.numpy() for v in normal.model.non_trainable_variables]
    return found


def measured(together: Collective) -> dict[str, Any]:
    """The metrics of `fit` and `evaluate` on unequal shares, with tfhet's callback; a solo run takes their union."""
    classifier = model()
    auc, accuracy = tf.keras.metrics.AUC(name="auc"), tf.keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    classifier.compile(tf.keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy", metrics=[accuracy])
    binary = tf.keras.Sequential([classifier, tf.keras.layers.Lambda(lambda shares: shares[:, :1])])
    binary.compile(tf.keras.optimizers.SGD(0.0), "binary_crossentropy", metrics=[auc])
    sizes = (20, 6) if together.size > 1 else (26,)
    images, labels = data(sizes[together.rank], sum(sizes[: together.rank]))
    averaged = MetricAverageCallback()
    how = {"batch_size": 5, "verbose": 0, "callbacks": [averaged]}
    history = classifier.fit(images, labels, validation_data=(images[:4], labels[:4]), epochs=2, **how).history
    binary.evaluate(images, tf.cast(labels == 0, tf.float32), **how)
    return {"fit": history, "evaluate": averaged.evaluated}


def looped(together: Collective) -> dict[str, Any]:
    """Epochs over splits of unequal size, so that the ranks run dry at different steps."""
    source = SyntheticSource(90, 5, SHAPE, CLASSES, uneven=True)
    pipeline = Pipeline(source, "rescale()", batch_size=4)
    size = together.size
    job = JobContext("job", "homogeneous", rank=together.rank, size=size, local_rank=together.rank, local_size=size)
    accelerator = KerasAccelerator(model(normalised=True), tf.keras.optimizers.SGD(0.1), together)
    lines: list[str] = []
    loop = Loop(
        Reader(pipeline, job),
        accelerator,
        together,
        log_every=4,
        on_metrics=lambda line: lines.append(str(line)),
        on_epoch_end=accelerator.average_statistics,
    )
    results = [loop.epoch(epoch) for epoch in range(2)]
    results[-1] |= loop.evaluate(Reader(pipeline, job))
    return {
        "results": results,
        "step": loop.step,
        "batches": loop.batches,
        "lines": lines,
        "digest": accelerator.digest(),
    }


def everything(together: Collective) -> dict[str, Any]:
    return {
        "facts": facts(together),
        "trained": trained(together),
        "measured": measured(together),
        "looped": looped(together),
    }


if __name__ == "__main__":
    joined = strategies.get(sys.argv[1]).collective(int(sys.argv[2]))
    outcome = everything(joined)
    joined.shutdown()
    Path(sys.argv[3]).write_bytes(pickle.dumps(outcome))
