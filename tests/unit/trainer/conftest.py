"""Batches without a pipeline, ranks without processes, a tiny model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfhet.clock import FakeClock
from tfhet.trainer.feed import Delivery

SHAPE, CLASSES = (2, 2, 1), 3


def batch_of(count: int, first: int = 0) -> tuple[tf.Tensor, tf.Tensor]:
    """`count` examples that depend on their number only."""
    numbers = tf.range(first, first + count, dtype=tf.float32)
    pixels = tf.sin(numbers[:, tf.newaxis] * 7.0 + tf.range(4.0))
    return tf.reshape(pixels, [-1, *SHAPE]), tf.cast(numbers, tf.int64) % CLASSES


def tiny_model(hidden: bool = False) -> tf.keras.Model:
    """The same weights each time."""
    layers = [tf.keras.layers.Input(SHAPE), tf.keras.layers.Flatten()]
    if hidden:
        layers.append(tf.keras.layers.Dense(8, activation="relu"))
    layers.append(tf.keras.layers.Dense(CLASSES, activation="softmax", dtype="float32"))
    model = tf.keras.Sequential(layers)
    for index, variable in enumerate(model.weights):
        variable.assign(tf.reshape(tf.cos(tf.range(float(tf.size(variable))) + index), variable.shape))
    return model


@dataclass
class FakeFeed:
    """Delivers batches of the given sizes in each epoch; each was waited for `wait_s` on the clock."""

    sizes: Sequence[int]
    batch_size: int = 4
    first_id: int = 0
    wait_s: float = 0.0
    clock: FakeClock = field(default_factory=FakeClock)
    examples: int | None = None
    """In the whole source, all ranks together; None: as many as this feed has."""
    given: int = 0
    """Batches that were asked for and delivered."""

    def __post_init__(self) -> None:
        expected = sum(self.sizes) if self.examples is None else self.examples
        source = SimpleNamespace(example_count=lambda: None if expected < 0 else expected)
        self.pipeline = SimpleNamespace(batch_size=self.batch_size, source=source)

    def epoch(self, epoch: int) -> Iterator[Delivery]:
        at = self.first_id
        for size in self.sizes:
            self.clock.sleep(self.wait_s)
            self.given += 1
            images, labels = batch_of(size, at)
            yield Delivery(images, labels, np.arange(at, at + size), epoch, self.wait_s)
            at += size

    def endless(self, epoch: int) -> Iterator[Delivery]:
        while True:
            yield from self.epoch(epoch)
            epoch += 1


class Threads:
    """A collective whose ranks are threads of this process; for accelerators that need no graph."""

    def __init__(self, rank: int, size: int, barrier: threading.Barrier, slots: list[Any]):
        self.rank = self.local_rank = rank
        self.size = size
        self._barrier = barrier
        self._slots = slots

    def _exchange(self, value: Any) -> list[Any]:
        self._slots[self.rank] = value
        self._barrier.wait(30)
        everything = list(self._slots)
        self._barrier.wait(30)
        return everything

    def total(self, values: Sequence[float], name: str) -> list[float]:
        return [float(sum(column)) for column in zip(*self._exchange(list(values)), strict=True)]

    def gather(self, values: np.ndarray, name: str) -> np.ndarray:
        return np.concatenate(self._exchange(values))

    def shutdown(self) -> None:
        return None


@pytest.fixture
def each_rank() -> Callable[[int, Callable[[Threads], Any]], list[Any]]:
    """Runs something as every rank of a collective, side by side; the results by rank."""

    def run(size: int, what: Callable[[Threads], Any]) -> list[Any]:
        barrier, slots = threading.Barrier(size), [None] * size

        def one(rank: int) -> Any:
            try:
                return what(Threads(rank, size, barrier, slots))
            except BaseException:
                barrier.abort()
                raise

        with ThreadPoolExecutor(size) as pool:
            return list(pool.map(one, range(size)))

    return run


@pytest.fixture(autouse=True)
def _globals_stay_as_they_were() -> Iterator[None]:
    yield
    tf.keras.mixed_precision.set_global_policy("float32")
    tf.random.set_seed(None)


@pytest.fixture
def batch() -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    return batch_of


@pytest.fixture
def model() -> Callable[..., tf.keras.Model]:
    return tiny_model


@pytest.fixture
def fake_feed() -> type[FakeFeed]:
    return FakeFeed
