from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest
import tensorflow as tf

pytest.importorskip("horovod.tensorflow")

import tfhet.horovod as hvd
from tfhet.errors import UsageError
from tfhet.horovod.keras_version import HAS_KERAS_3
from tfhet.horovod.reduction import Reduction

keras_3 = pytest.mark.skipif(not HAS_KERAS_3, reason="under Keras 2, the optimizer is Horovod's")


def sgd(**options: Any) -> Any:
    return tf.keras.optimizers.SGD(0.1, **options)


def model() -> Any:
    return tf.keras.Sequential([tf.keras.layers.Input([2]), tf.keras.layers.Dense(1)])


@pytest.fixture
def several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reduction, "is_needed", True)


@keras_3
@pytest.mark.parametrize(
    "options",
    [
        {"op": hvd.Adasum},
        {"op": hvd.Min},
        {"backward_passes_per_step": 2},
        {"scale_local_gradients": False},
        {"groups": -1},
        {"gradient_predivide_factor": 2.0, "op": hvd.Sum},
        {"process_set": hvd.ProcessSet([0])},
    ],
    ids=lambda options: ",".join(options),
)
def test_arguments_that_cannot_work_are_refused(options):
    with pytest.raises(UsageError):
        hvd.DistributedOptimizer(sgd(), **options)


@keras_3
@pytest.mark.parametrize("optimizer", ["sgd", None, tf.Variable(1.0)])
def test_only_optimizers_are_distributed(optimizer):
    with pytest.raises(UsageError):
        hvd.DistributedOptimizer(optimizer)


@keras_3
def test_optimizer_is_distributed_once():
    optimizer = sgd()
    assert hvd.DistributedOptimizer(optimizer) is optimizer
    kind = type(optimizer)
    assert hvd.DistributedOptimizer(optimizer) is optimizer and type(optimizer) is kind
    with pytest.raises(UsageError):
        hvd.DistributedOptimizer(optimizer, op=hvd.Sum)


@keras_3
def test_loss_scale_contains_no_distributed_optimizer():
    scaled = tf.keras.mixed_precision.LossScaleOptimizer
    with pytest.raises(UsageError):
        scaled(hvd.DistributedOptimizer(sgd()))
    inner = sgd()
    outer = scaled(inner)
    hvd.DistributedOptimizer(inner)
    with pytest.raises(UsageError):
        hvd.DistributedOptimizer(outer)


@keras_3
def test_copy_of_an_optimizer_is_distributed():
    optimizer = hvd.DistributedOptimizer(sgd(momentum=0.9))
    copy = type(optimizer).from_config(optimizer.get_config())
    with pytest.raises(UsageError):
        hvd.DistributedOptimizer(copy, op=hvd.Sum)
    assert copy.momentum == 0.9


@keras_3
def test_xla_is_off_and_refused(several_ranks, monkeypatch):
    made = model()
    monkeypatch.setattr(type(made), "_resolve_auto_jit_compile", lambda self: True)
    made.compile(sgd(), "mse")
    assert made.jit_compile
    made.compile(hvd.DistributedOptimizer(sgd()), "mse", experimental_run_tf_function=False)
    assert not made.jit_compile
    with pytest.raises(UsageError):
        made.compile(hvd.DistributedOptimizer(sgd()), "mse", jit_compile=True)


@keras_3
def test_other_models_compile_as_before():
    hvd.DistributedOptimizer(sgd())
    with pytest.raises(TypeError):
        model().compile(sgd(), "mse", experimental_run_tf_function=False)


@keras_3
def test_tape_is_distributed_once():
    with pytest.raises(UsageError):
        hvd.DistributedGradientTape(hvd.DistributedGradientTape(tf.GradientTape()))


@keras_3
def test_legacy_optimizers_are_not_loaded():
    with pytest.raises(UsageError):
        hvd.load_model("model.keras", legacy_opts=True)


@keras_3
def test_other_backend_is_refused(monkeypatch):
    monkeypatch.setattr(tf.keras.backend, "backend", lambda: "jax")
    monkeypatch.delitem(sys.modules, "tfhet.horovod.keras_version")
    with pytest.raises(UsageError):
        importlib.import_module("tfhet.horovod.keras_version")


def test_missing_horovod_is_a_usage_error(monkeypatch):
    monkeypatch.delitem(sys.modules, "tfhet.horovod.collectives")
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", None)
    with pytest.raises(UsageError):
        importlib.import_module("tfhet.horovod.collectives")


def test_every_name_is_there():
    assert [name for name in hvd.__all__ if getattr(hvd, name, None) is None] == []
