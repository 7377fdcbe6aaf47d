"""Ranks without processes; and a tiny model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tensorflow as tf
from fake_feed import Threads, batch_of, tiny_model


@pytest.fixture
def each_rank() -> Callable[[int, Callable[[Threads], Any]], list[Any]]:
    """Runs a function as every rank of a collective, in parallel; the results by rank."""

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
