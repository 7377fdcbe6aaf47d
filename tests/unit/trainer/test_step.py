from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from fake_clock import FakeClock

from tfhet.strategies.solo import SoloCollective
from tfhet.trainer.emulated import EmulatedAccelerator, EmulatedDevice
from tfhet.trainer.step import NUMBERS, KerasAccelerator, shares

SGD = tf.keras.optimizers.SGD


def weights(accelerator: KerasAccelerator) -> list[np.ndarray]:
    return [v.numpy() for v in accelerator.model.weights]


def assert_equal(found: list[np.ndarray], expected: list[np.ndarray], exact: bool = False) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-6)


@pytest.mark.parametrize("soft", [False, True])
def test_step_follows_the_gradient(batch, model, soft):
    reference, (images, labels) = model(), batch(5)
    given = 0.7 * tf.one_hot(labels, 3) + 0.3 * tf.one_hot((labels + 1) % 3, 3) if soft else labels
    accelerator = KerasAccelerator(model(), SGD(0.5), SoloCollective(), labels=shares(3) if soft else NUMBERS)
    with tf.GradientTape() as tape:
        logarithms = tf.math.log(reference(images))
        losses = -tf.reduce_sum((given if soft else tf.one_hot(labels, 3)) * logarithms, axis=1)
        mean = tf.reduce_mean(losses)
    right = int(np.sum(np.argmax(logarithms, axis=1) == labels.numpy()))
    variables = reference.trainable_variables
    for variable, gradient in zip(variables, tape.gradient(mean, variables), strict=True):
        variable.assign_sub(0.5 * gradient)
    examples, loss, correct, _ = np.asarray(accelerator.step((images, given)))
    assert (examples, correct) == (5, right)
    assert loss == pytest.approx(float(tf.reduce_sum(losses)), rel=1e-5)
    assert_equal(weights(accelerator), [v.numpy() for v in reference.weights])


def test_step_without_a_batch_changes_nothing(model):
    accelerator = KerasAccelerator(model(), tf.keras.optimizers.Adam(0.1), SoloCollective(), accumulate=True)
    before = accelerator.digest()
    np.testing.assert_array_equal(accelerator.step(None), [0, 0, 0, 0])
    assert accelerator.digest() == before
    assert int(accelerator.optimizer.iterations) == 0


@pytest.mark.parametrize("scaling", [False, True])
def test_accumulated_batches_equal_one_batch(batch, model, scaling):
    whole = KerasAccelerator(model(), SGD(0.5), SoloCollective(), loss_scaling=scaling)
    parts = KerasAccelerator(model(), SGD(0.5), SoloCollective(), loss_scaling=scaling, accumulate=True)
    for step in range(2):
        counts = np.asarray(whole.step(batch(8, 10 * step)))
        parts.accumulate(batch(3, 10 * step))
        parts.accumulate(batch(4, 10 * step + 3))
        np.testing.assert_allclose(parts.step(batch(1, 10 * step + 7)), counts, rtol=1e-5)
        assert_equal(weights(parts), weights(whole))


def test_accumulated_batches_count_without_a_batch(batch, model):
    whole, parts = (KerasAccelerator(model(), SGD(0.5), SoloCollective(), accumulate=a) for a in (False, True))
    whole.step(batch(4))
    parts.accumulate(batch(4))
    assert np.asarray(parts.step(None))[0] == 4
    assert np.asarray(parts.step(None))[0] == 0
    assert_equal(weights(parts), weights(whole))


def test_evaluating_learns_nothing(batch, model):
    accelerator = KerasAccelerator(model(), SGD(0.5), SoloCollective())
    before = accelerator.digest()
    counts = np.asarray(accelerator.evaluate(batch(6)))
    assert accelerator.digest() == before
    np.testing.assert_allclose(accelerator.step(batch(6))[:3], counts, rtol=1e-5)


def test_one_graph_serves_every_batch(batch, model):
    accelerator = KerasAccelerator(model(), SGD(0.5), SoloCollective())
    for size in (4, 3, 1):
        accelerator.step(batch(size))
    accelerator.step(None)
    images, labels = batch(4)
    accelerator.step((tf.cast(images, tf.uint8), tf.cast(labels, tf.int32)))
    assert accelerator._step.experimental_get_tracing_count() == 1


def test_learning_rate_can_be_set_between_steps(batch, model):
    for scaling in (False, True):
        accelerator = KerasAccelerator(model(), SGD(0.5), SoloCollective(), loss_scaling=scaling)
        before = weights(accelerator)
        accelerator.optimizer.learning_rate.assign(0.0)
        accelerator.step(batch(4))
        assert_equal(weights(accelerator), before, exact=True)
        accelerator.optimizer.learning_rate.assign(1.0)
        accelerator.step(batch(4))
        assert any((now != then).any() for now, then in zip(weights(accelerator), before, strict=True))


def test_float16_learns_with_a_loss_scale(batch, model):
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    accelerator = KerasAccelerator(model(hidden=True), SGD(0.1), SoloCollective(), loss_scaling=True)
    assert accelerator.model.layers[-2].compute_dtype == "float16"
    losses = [float(np.asarray(accelerator.step(batch(12)))[1]) for _ in range(12)]
    assert losses[-1] < losses[0]
    assert all(v.dtype == tf.float32 for v in accelerator.model.trainable_variables)


def test_overflowing_step_is_skipped(batch, model):
    accelerator = KerasAccelerator(model(), SGD(0.5), SoloCollective(), loss_scaling=True)
    before, scale = weights(accelerator), float(accelerator.loss_scale.value)
    images, labels = batch(3)
    accelerator.step((images * np.inf, labels))
    assert_equal(weights(accelerator), before, exact=True)
    assert float(accelerator.loss_scale.value) == scale / 2
    accelerator.step((images, labels))
    assert any((now != then).any() for now, then in zip(weights(accelerator), before, strict=True))


def test_loss_scale_is_shared_by_ranks(model):
    plain, scaled = (KerasAccelerator(model(), SGD(0.5), SoloCollective(), loss_scaling=s) for s in (False, True))
    assert len(scaled.variables()) == len(plain.variables()) + 2
    assert any(v.shape == () and float(v) == 2.0**15 for v in scaled.variables())


def test_digest_shows_the_smallest_difference(model):
    one, other = (KerasAccelerator(model(), SGD(0.5), SoloCollective()) for _ in range(2))
    assert one.digest() == other.digest()
    bias = other.model.weights[-1]
    bias.assign(np.nextafter(bias.numpy(), np.float32(9)))
    assert one.digest() != other.digest()


def test_statistics_of_one_rank_stay(batch):
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((2, 2, 1)),
            tf.keras.layers.BatchNormalization(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(3, activation="softmax"),
        ]
    )
    accelerator = KerasAccelerator(model, SGD(0.5), SoloCollective())
    start = [v.numpy() for v in model.non_trainable_variables]
    accelerator.step(batch(4))
    moved = [v.numpy() for v in model.non_trainable_variables]
    assert any((a != b).any() for a, b in zip(start, moved, strict=True))
    accelerator.average_statistics()
    assert_equal([v.numpy() for v in model.non_trainable_variables], moved, exact=True)


def test_stop_request_is_counted(batch, model):
    wishing, other = (KerasAccelerator(model(), tf.keras.optimizers.SGD(0.5), SoloCollective()) for _ in range(2))
    for stop in (True, False, True):
        assert np.asarray(wishing.step(batch(4), stop))[3] == stop
        assert np.asarray(other.step(batch(4)))[3] == 0
    assert wishing.digest() == other.digest()
    assert np.asarray(wishing.step(None, True)).tolist() == [0, 0, 0, 1]
    assert wishing.digest() == other.digest()


def test_stop_requests_of_all_ranks_are_added(each_rank, batch):
    def rank(together) -> float:
        return EmulatedAccelerator(0.0, together, FakeClock()).step(batch(2), together.rank > 0)[3]

    assert each_rank(3, rank) == [2.0] * 3


# Emulated


def test_emulated_step_takes_time(batch):
    clock = FakeClock()
    accelerator = EmulatedAccelerator(0.25, SoloCollective(), clock)
    assert tuple(accelerator.step(batch(4))) == (4, 0, 0, 0)
    accelerator.accumulate(batch(3))
    assert tuple(accelerator.step(batch(2), stop=True)) == (5, 0, 0, 1)
    assert tuple(accelerator.step(None)) == (0, 0, 0, 0)  # when all that was handed over is done
    assert tuple(accelerator.step(None)) == (0, 0, 0, 0)
    assert tuple(accelerator.evaluate(batch(7))) == (7, 0, 0)
    assert clock.monotonic() == 0.75


def test_emulated_step_follows_its_file(batch, tmp_path):
    clock, file = FakeClock(), tmp_path / "step_ms"
    accelerator = EmulatedAccelerator(0.25, SoloCollective(), clock, file)
    lengths = []
    for text in (None, "500", "125.5", "", "-1"):
        if text is not None:
            file.write_text(text)
        before = clock.monotonic()
        accelerator.step(batch(4))
        accelerator.step(None)
        lengths.append(clock.monotonic() - before)
    assert lengths == pytest.approx([0.25, 0.5, 0.1255, 0.1255, 0.0])


# Where the time goes


class Slow(SoloCollective):
    """Two ranks; the other one is late by a second each time."""

    size = 2

    def __init__(self, clock: FakeClock):
        self._clock = clock

    def sum(self, tensors, name):
        def late(*values):
            self._clock.sleep(1.0)
            return values

        summed = tf.py_function(late, tensors, [tensor.dtype for tensor in tensors])
        for tensor, shape in zip(summed, tensors, strict=True):
            tensor.set_shape(shape.shape)
        return summed

    def total(self, values, name):
        self._clock.sleep(1.0)
        return super().total(values, name)


def test_emulated_allreduce_is_time_in_the_collective(batch):
    clock = FakeClock()
    accelerator = EmulatedAccelerator(0.25, Slow(clock), clock)
    accelerator.step(batch(4))
    assert (accelerator.allreduce_s, accelerator.copied_s, clock.monotonic()) == (1.0, 0.0, 1.0)


def test_allreduce_is_measured_in_the_graph(batch, model, monkeypatch):
    clock = FakeClock(1000.0)
    monkeypatch.setattr(tf, "timestamp", lambda: tf.py_function(clock.wall, [], tf.float64))
    accelerator = KerasAccelerator(model(), SGD(0.5), Slow(clock))
    assert np.asarray(accelerator.step(batch(4)))[0] == 4
    assert float(accelerator.allreduce_s) == 1.0


def test_one_rank_has_no_clock_in_its_graph(batch, model):
    accelerator = KerasAccelerator(model(), SGD(0.5), SoloCollective())
    accelerator.step(batch(4))
    assert accelerator.allreduce_s == 0.0
    operations = accelerator._step.get_concrete_function().graph.get_operations()
    assert "Timestamp" not in {operation.type for operation in operations}


def test_allreduce_on_a_gpu_is_unknown(batch, model, monkeypatch):
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: ["GPU:0"])
    accelerator = KerasAccelerator(model(), SGD(0.5), Slow(FakeClock()))
    accelerator.step(batch(4))
    assert np.isnan(accelerator.allreduce_s)


def test_copying_batches_to_the_device_is_measured(batch, model):
    class Ticking(FakeClock):
        def monotonic(self) -> float:
            self.sleep(0.5)
            return super().monotonic()

    accelerator = KerasAccelerator(model(), SGD(0.5), SoloCollective(), accumulate=True, clock=Ticking())
    accelerator.accumulate(batch(3))
    accelerator.step(batch(4))
    assert accelerator.copied_s == 1.0
    accelerator.step(None)
    assert accelerator.copied_s == 1.0


def test_device_works_while_the_next_batch_loads():
    clock = FakeClock()
    device, begun, idle = EmulatedDevice(clock), [], []
    for input_s in (0.02, 0.02, 0.38):
        clock.sleep(input_s)
        device.begin(0.1)
        begun.append(clock.monotonic())
        idle.append(device.idle_s)
    # The second is handed over while the first goes on; the third comes when both have ended.
    assert begun == pytest.approx([0.02, 0.04, 0.42])
    assert idle == pytest.approx([0.02, 0.0, 0.2])
    device.finish()
    assert clock.monotonic() == pytest.approx(0.52)


def test_feeding_is_one_step_ahead():
    clock = FakeClock()
    device, begun = EmulatedDevice(clock), []
    for _ in range(4):
        device.begin(0.25)
        begun.append(clock.monotonic())
    assert begun == pytest.approx([0.0, 0.0, 0.25, 0.5])
    device.finish()
    device.finish()
    assert clock.monotonic() == pytest.approx(1.0)
