"""tfhet.horovod on two ranks: the weights of one process on all examples, under Keras 2 and Keras 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rank_processes import met, results

from tfhet.horovod.keras_version import HAS_KERAS_3

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(600)]
SCRIPT = Path(__file__).with_name("horovod_ranks.py")
TOLERANCE = {"option fp16": 5e-3, "mixed_float16": 5e-3}
ONLY_ALIKE = ("unbuilt", "dropout", "overflow", "overflow eager", "warm_up")
"""Cases whose ranks agree with each other only."""
SUMS = ("sum_of_gradients", "distributed_twice")
"""Cases with a smaller learning rate than one process has."""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return met(SCRIPT, "horovod", tmp_path_factory.mktemp("ranks"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return results(SCRIPT, "horovod", tmp_path_factory.mktemp("alone"), [{}])[0]


def numbers(shape: tuple[int, ...], first: int) -> np.ndarray:
    return np.sin(np.arange(first, first + np.prod(shape), dtype=np.float64) * 1.7).reshape(shape)


def test_ranks_have_equal_weights(ranks):
    for name in ranks[0]:
        for kind in ("weights", "state"):
            for first, second in zip(ranks[0][name][kind], ranks[1][name][kind], strict=True):
                np.testing.assert_array_equal(first, second, name)


def test_ranks_train_like_one_process(ranks, alone):
    for name in sorted(set(alone) - set(ONLY_ALIKE)):
        near = {"rtol": 0, "atol": TOLERANCE.get(name, 2e-6), "err_msg": name}
        for kind in ("weights",) if name in SUMS else ("weights", "state"):
            for expected, found in zip(alone[name][kind], ranks[0][name][kind], strict=True):
                np.testing.assert_allclose(found, expected, **near)
        for key, expected in alone[name]["logs"].items():
            np.testing.assert_allclose(ranks[0][name]["logs"][key], expected, **near)


def test_ranks_train_like_numpy(ranks):
    """The same reference for every TensorFlow."""
    inner, inner_bias, outer, outer_bias = (
        numbers(shape, 100 * index) for index, shape in enumerate(((4, 5), (5,), (5, 2), (2,)))
    )
    weights = [inner, inner_bias, outer, outer_bias]
    velocities = [np.zeros_like(each) for each in weights]
    examples, labels = numbers((48, 4), 0).reshape(6, 8, 4), numbers((48, 2), 500).reshape(6, 8, 2)
    for x, y in [*zip(examples, labels, strict=True)] * 2:
        hidden = np.tanh(x @ inner + inner_bias)
        error = 2 * (hidden @ outer + outer_bias - y) / y.size
        below = error @ outer.T * (1 - hidden**2)
        for gradient, weight, velocity in zip(
            (x.T @ below, below.sum(0), hidden.T @ error, error.sum(0)), weights, velocities, strict=True
        ):
            velocity *= 0.9
            velocity -= 0.1 * gradient
            weight += velocity
    for expected, found in zip(weights, ranks[0]["dense sgd"]["weights"], strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


@pytest.mark.skipif(not HAS_KERAS_3, reason="Horovod's own callbacks under Keras 2")
def test_warm_up_reaches_the_rate(ranks):
    rates = ranks[0]["warm_up"]["rates"]
    np.testing.assert_allclose(rates[:6], 0.1 + 0.1 * np.arange(1, 7) / 6, rtol=1e-5)
    np.testing.assert_allclose(rates[6:], [0.2] * 6 + [0.02] * 6, rtol=1e-5)


@pytest.mark.skipif(not HAS_KERAS_3, reason="Horovod's own optimizer under Keras 2")
def test_overflow_of_one_rank_skips_a_step(ranks):
    for name in ("overflow", "overflow eager"):  # once in each of two epochs, from 2**15
        assert any(np.size(value) == 1 and value == 2.0**13 for value in ranks[0][name]["state"])
