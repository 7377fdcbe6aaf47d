"""One rank that trains small models by tfhet.horovod, and writes their weights: `horovod_ranks.py KIND SIZE FILE`.

A process alone trains on the ranks' examples together, with plain optimizers.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tfhet.horovod as hvd
from tfhet.horovod.keras_version import HAS_KERAS_3

BATCH, STEPS, WORDS, WIDTH = 8, 6, 10, 3
CASES: dict[str, Callable[[], dict[str, Any]]] = {}


def numbers(shape: tuple[int, ...], first: int) -> np.ndarray:
    """Numbers between -1 and 1 that depend on nothing but their place."""
    return np.sin(np.arange(first, first + np.prod(shape), dtype=np.float64) * 1.7).astype(np.float32).reshape(shape)


def share(values: np.ndarray) -> np.ndarray:
    """The rows of this rank, batch by batch."""
    batches = values.reshape(-1, BATCH, *values.shape[1:])
    own = BATCH // hvd.size()
    return batches[:, hvd.rank() * own : (hvd.rank() + 1) * own].reshape(-1, *values.shape[1:])


def dense_data() -> tuple[np.ndarray, np.ndarray]:
    return share(numbers((BATCH * STEPS, 4), 0)), share(numbers((BATCH * STEPS, 2), 500))


def word_data() -> tuple[np.ndarray, np.ndarray]:
    words = (np.arange(BATCH * STEPS * WIDTH) * 7 // 3 % WORDS).reshape(-1, WIDTH)
    return share(words), share(numbers((BATCH * STEPS, 1), 500))


def dense_model(is_built: bool = True) -> Any:
    layers = [tf.keras.layers.Dense(5, activation="tanh"), tf.keras.layers.Dense(2, dtype="float32")]
    return tf.keras.Sequential([tf.keras.layers.Input([4]), *layers] if is_built else layers)


def word_model() -> Any:
    layers = [tf.keras.layers.Embedding(WORDS, 4), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)]
    return tf.keras.Sequential([tf.keras.layers.Input([WIDTH], dtype="int32"), *layers])


def set_weights(model: Any, apart: bool = True) -> None:
    """Sets weights that differ between the ranks, or are equal."""
    for index, each in enumerate(model.weights):
        each.assign(numbers(tuple(each.shape), 100 * index + (37 * hvd.rank() if apart else 0)))


def distributed(optimizer: Any, **options: Any) -> Any:
    return hvd.DistributedOptimizer(optimizer, **options) if hvd.size() > 1 else optimizer


def fit(
    model: Any,
    data: tuple[np.ndarray, np.ndarray],
    optimizer: Any,
    epochs: int = 2,
    callbacks: tuple[Any, ...] = (),
    options: dict[str, Any] | None = None,
    **compiled: Any,
) -> dict[str, Any]:
    if model.built:
        set_weights(model, apart=HAS_KERAS_3)  # under Keras 2, Horovod broadcasts after the first step only
    model.compile(distributed(optimizer, **(options or {})), "mse", metrics=["mae"], **compiled)
    batch = BATCH // hvd.size()
    own = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    history = model.fit(
        *data, batch_size=batch, epochs=epochs, shuffle=False, verbose=0, callbacks=[*own, *callbacks]
    ).history
    return {"weights": model.get_weights(), "logs": history, "state": state(model.optimizer)}


def state(optimizer: Any) -> list[np.ndarray]:
    return [each.numpy() for each in (optimizer.variables() if callable(optimizer.variables) else optimizer.variables)]


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: tf.keras.optimizers.Adam(0.01),
    "clipnorm": lambda: tf.keras.optimizers.SGD(0.5, clipnorm=0.05),
    "global_clipnorm": lambda: tf.keras.optimizers.SGD(0.5, global_clipnorm=0.05),
    "weight_decay": lambda: tf.keras.optimizers.AdamW(0.01, weight_decay=0.1),
    "ema": lambda: tf.keras.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=3),
}
if HAS_KERAS_3:
    OPTIMIZERS["accumulation"] = lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=3)
    OPTIMIZERS["loss_scale_factor"] = lambda: tf.keras.optimizers.SGD(0.1, loss_scale_factor=64.0)
for _name, _made in OPTIMIZERS.items():
    CASES[f"dense {_name}"] = lambda made=_made: fit(dense_model(), dense_data(), made())  # type: ignore[misc]
for _name in ("sgd", "adam"):
    CASES[f"words {_name}"] = lambda made=OPTIMIZERS[_name]: fit(word_model(), word_data(), made())  # type: ignore[misc]
OPTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "sparse_as_dense": lambda: {"sparse_as_dense": True},
    "two groups": lambda: {"groups": 2},
    "fp16": lambda: {"compression": hvd.Compression.fp16},
    "predivide": lambda: {"gradient_predivide_factor": 2.0, "sparse_as_dense": True},
    "devices": lambda: {"device_dense": "/cpu:0", "device_sparse": "/cpu:0", "name": "own"},
}
for _name, _options in OPTIONS.items():
    CASES[f"option {_name}"] = lambda made=_options: fit(  # type: ignore[misc]
        word_model(), word_data(), OPTIMIZERS["sgd"](), options=made()
    )
COMPILED = {"steps_per_execution": {"steps_per_execution": 2}, "run_eagerly": {"run_eagerly": True}}
for _name, _compiled in COMPILED.items():
    CASES[f"compile {_name}"] = lambda made=_compiled: fit(  # type: ignore[misc]
        dense_model(), dense_data(), OPTIMIZERS["sgd"](), **made
    )


def sum_of_gradients() -> dict[str, Any]:
    optimizer = tf.keras.optimizers.SGD(0.1 if hvd.size() == 1 else 0.1 / hvd.size())
    return fit(dense_model(), dense_data(), optimizer, options={"op": hvd.Sum})


def groups_of_variables() -> dict[str, Any]:
    model = dense_model()
    kernels = [each for each in model.trainable_variables if "kernel" in each.name]
    return fit(model, dense_data(), OPTIMIZERS["sgd"](), options={"groups": [kernels]})


def schedule() -> dict[str, Any]:
    made = tf.keras.optimizers.SGD(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 4, 0.5))
    return fit(dense_model(), dense_data(), made)


def loop(is_compiled: bool, model: Any, data: tuple[np.ndarray, np.ndarray], optimizer: Any, **options: Any) -> Any:
    """A loop with a tape; the loss is a mean over the ranks' examples."""
    set_weights(model)
    hvd.broadcast_variables(model.variables, root_rank=0)
    spare = tf.Variable(1.0)

    def step(examples: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(labels - model(examples, training=True)))
        tape = hvd.DistributedGradientTape(tape, **options) if hvd.size() > 1 else tape
        *gradients, nothing = tape.gradient(loss, [*model.trainable_variables, spare])
        assert nothing is None
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    run = tf.function(step) if is_compiled else step
    batches = tf.data.Dataset.from_tensor_slices(data).batch(BATCH // hvd.size())
    losses = [float(hvd.allreduce(run(*batch))) for batch in batches]
    return {"weights": model.get_weights(), "logs": {"loss": losses}, "state": state(optimizer)}


def only_sparse_gradients() -> dict[str, Any]:
    model = word_model()
    model.layers[-1].trainable = False
    return fit(model, word_data(), OPTIMIZERS["sgd"]())


CASES |= {each.__name__: each for each in (sum_of_gradients, groups_of_variables, schedule, only_sparse_gradients)}
CASES["loop in a graph"] = lambda: loop(True, dense_model(), dense_data(), OPTIMIZERS["adam"]())
CASES["loop eager"] = lambda: loop(False, dense_model(), dense_data(), OPTIMIZERS["sgd"]())
CASES["loop of words"] = lambda: loop(True, word_model(), word_data(), OPTIMIZERS["sgd"]())
CASES["loop with groups"] = lambda: loop(True, word_model(), word_data(), OPTIMIZERS["sgd"](), groups=2)


def unbuilt() -> dict[str, Any]:
    """The first batch builds the model, so all steps but the first are alike."""
    return fit(dense_model(is_built=False), dense_data(), OPTIMIZERS["sgd"]())


def dropout() -> dict[str, Any]:
    model = dense_model()
    model.add(tf.keras.layers.Dropout(0.5))
    return fit(model, dense_data(), OPTIMIZERS["sgd"]())


def mixed_float16(overflows: bool, **compiled: Any) -> dict[str, Any]:
    """The last rank has gradients that are not finite in its first step."""
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        examples, labels = dense_data()
        if overflows and hvd.rank() == hvd.size() - 1:
            labels[: BATCH // hvd.size()] = 1e30
        return fit(dense_model(), (examples, labels), OPTIMIZERS["sgd"](), **compiled)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


def loss_scale_outside() -> dict[str, Any]:
    scaled = tf.keras.mixed_precision.LossScaleOptimizer(OPTIMIZERS["sgd"](), initial_scale=64.0)
    return fit(dense_model(), dense_data(), scaled)


def trained_further() -> dict[str, Any]:
    """Half of the training before the model is saved, half after it is loaded."""
    path = str(Path(sys.argv[3]).with_suffix(".keras"))
    model = dense_model()
    fit(model, dense_data(), OPTIMIZERS["adam"](), epochs=1)
    model.save(path)
    loaded = hvd.load_model(path) if hvd.size() > 1 else tf.keras.models.load_model(path)
    loaded.fit(*dense_data(), batch_size=BATCH // hvd.size(), shuffle=False, verbose=0)
    plain = tf.keras.models.load_model(path)  # no custom objects
    assert type(plain.optimizer) is tf.keras.optimizers.Adam
    return {"weights": loaded.get_weights(), "logs": {}, "state": state(loaded.optimizer)}


def distributed_twice() -> dict[str, Any]:
    optimizer = distributed(tf.keras.optimizers.SGD(0.1 / hvd.size()), op=hvd.Sum)
    return fit(dense_model(), dense_data(), optimizer, options={"op": hvd.Sum})


def two_optimizers() -> dict[str, Any]:
    models = [dense_model(), dense_model()]
    optimizers = [distributed(OPTIMIZERS["adam"]()) for _ in models]
    for model in models:
        set_weights(model)
        hvd.broadcast_variables(model.variables)

    @tf.function
    def step(examples: Any, labels: Any) -> None:
        with tf.GradientTape(persistent=True) as tape:
            losses = [tf.reduce_mean(tf.square(labels - model(examples))) for model in models]
        for model, optimizer, loss in zip(models, optimizers, losses, strict=True):
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    for batch in tf.data.Dataset.from_tensor_slices(dense_data()).batch(BATCH // hvd.size()):
        step(*batch)
    weights = [each for model in models for each in model.get_weights()]
    return {"weights": weights, "logs": {}, "state": [value for each in optimizers for value in state(each)]}


class Rates(tf.keras.callbacks.Callback):
    """Learning rates of the batches."""

    def on_train_begin(self, logs: Any = None) -> None:
        self.seen: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(float(self.model.optimizer.learning_rate))


def warm_up() -> dict[str, Any]:
    """With more epochs than a warm-up has; the rates depend on the number of ranks."""
    rates = Rates()
    warm = hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.2, warmup_epochs=1)
    late = hvd.callbacks.LearningRateScheduleCallback(initial_lr=0.2, multiplier=lambda epoch: 0.1, start_epoch=2)
    found = fit(dense_model(), dense_data(), OPTIMIZERS["sgd"](), 3, (warm, late, rates))
    return {**found, "rates": rates.seen}


KERAS_3 = {
    "unbuilt": unbuilt,
    "dropout": dropout,
    "mixed_float16": lambda: mixed_float16(False),
    "overflow": lambda: mixed_float16(True),
    "overflow eager": lambda: mixed_float16(True, run_eagerly=True),
    "loss_scale_outside": loss_scale_outside,
    "trained_further": trained_further,
    "distributed_twice": distributed_twice,
    "two_optimizers": two_optimizers,
    "warm_up": warm_up,
}
"""Cases that Horovod's own functions under Keras 2 do not have, or have otherwise."""
if HAS_KERAS_3:
    CASES.update(KERAS_3)

if __name__ == "__main__":
    hvd.init()
    found = {}
    for name in sys.argv[4:] or CASES:
        print("case", name, flush=True)
        found[name] = CASES[name]()
    hvd.shutdown()
    Path(sys.argv[3]).write_bytes(pickle.dumps(found))
