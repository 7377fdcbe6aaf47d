"""Readers without a pipeline, ranks without processes, a tiny model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf
from fake_clock import FakeClock

from tfhet.pipeline import Rest
from tfhet.planes import Delivery
from tfhet.source import example_id, split_of

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


class FakeReader:
    """The calls of a reader that most tests do not look at."""

    is_served = False
    was_cut_off = False
    failure: Exception | None = None

    def agree(self) -> None:
        return None

    def go_local(self) -> None:
        self.is_served = False

    def offer(self, epoch: int, rest: Rest | None = None, part: int = 0) -> None:
        return None

    def ahead(self, epoch: int, offers: bool) -> None:
        return None

    def has_offered_ahead(self, epoch: int) -> bool:
        return False

    def close(self) -> None:
        return None


@dataclass
class FakeFeed(FakeReader):
    """Delivers batches of the given sizes in each epoch; the wait for each took `wait_s` on the clock."""

    sizes: Sequence[int]
    batch_size: int = 4
    first_id: int = 0
    wait_s: float = 0.0
    clock: FakeClock = field(default_factory=FakeClock)
    examples: int | None = None
    """Examples of the whole source, of all ranks; None for a feed's."""
    given: int = 0
    """Batches that were requested and delivered."""
    serving: bool = True
    made_ready: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        expected = sum(self.sizes) if self.examples is None else self.examples
        source = SimpleNamespace(
            example_count=lambda: None if expected < 0 else expected, split_count=lambda: 1, split_sizes=lambda: None
        )
        self.pipeline = SimpleNamespace(batch_size=self.batch_size, source=source)

    def has_servers(self, is_given_up: Callable[[], bool]) -> bool:
        return self.serving

    def ahead(self, epoch: int, offers: bool) -> None:
        self.made_ready.append(epoch)

    def epoch(self, epoch: int, rest: Rest | None = None, part: int = 0) -> Iterator[Delivery]:
        at = self.first_id
        for size in self.sizes:
            self.clock.sleep(self.wait_s)
            self.given += 1
            images, labels = batch_of(size, at)
            yield Delivery(images, labels, np.arange(at, at + size), epoch, self.wait_s)
            at += size


@dataclass
class FakeService:
    """A data service that several readers share: it gives the offered batches to them in turn.

    `sizes`: examples in each split.
    """

    sizes: Sequence[int]
    batch_size: int = 4
    knows_sizes: bool = True
    cuts: dict[int, dict[int, int]] = field(default_factory=dict)
    """Part -> rank -> after so many batches that reader is cut off."""
    lost: dict[int, Sequence[int]] = field(default_factory=dict)
    """Part -> numbers of the batches that are lost."""
    twice: dict[int, Sequence[int]] = field(default_factory=dict)
    """Part -> numbers of the batches that are delivered twice."""
    serves: bool = True
    """Whether a host still serves after the readers have agreed for the first time."""
    offered: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """(Epoch, part) -> ids."""
    rests: dict[tuple[int, int], Rest | None] = field(default_factory=dict)

    def ids(self) -> list[int]:
        """All that there are."""
        return [example_id(split, place) for split, size in enumerate(self.sizes) for place in range(size)]


class ServedFeed(FakeReader):
    """One rank's reader of the service, which delivers only offered examples."""

    def __init__(self, service: FakeService, rank: int = 0, size: int = 1):
        self.is_served = True
        self.agreed = 0
        self._service, self._rank, self._size = service, rank, size
        sizes = tuple(service.sizes)
        source = SimpleNamespace(
            example_count=lambda: sum(sizes) if service.knows_sizes else None,
            split_count=lambda: len(sizes),
            split_sizes=lambda: sizes if service.knows_sizes else None,
        )
        self.pipeline = SimpleNamespace(batch_size=service.batch_size, source=source)

    def agree(self) -> None:
        self.agreed += 1

    def has_servers(self, is_given_up: Callable[[], bool]) -> bool:
        return self._service.serves or not self.agreed

    def offer(self, epoch: int, rest: Rest | None = None, part: int = 0) -> None:
        assert self._rank == 0 and (epoch, part) not in self._service.offered
        ids = self._service.ids()
        if rest is not None:
            seen = set(rest.seen.ids().tolist())
            ids = [number for number in ids if rest.splits[split_of(number)] and number not in seen]
        self._service.offered[epoch, part] = ids
        self._service.rests[epoch, part] = rest

    def epoch(self, epoch: int, rest: Rest | None = None, part: int = 0) -> Iterator[Delivery]:
        service, self.was_cut_off = self._service, False
        ids, count = service.offered[epoch, part], service.batch_size
        batches = [ids[at : at + count] for at in range(0, len(ids), count)]
        kept = [batch for number, batch in enumerate(batches) if number not in service.lost.get(part, ())]
        kept += [batches[number] for number in service.twice.get(part, ())]
        for number, batch in enumerate(kept[self._rank :: self._size]):
            if number == service.cuts.get(part, {}).get(self._rank):
                self.was_cut_off = True
                return
            images, labels = batch_of(len(batch))
            yield Delivery(images, labels, np.array(batch, np.int64), epoch, 0.0)
        self.was_cut_off = service.cuts.get(part, {}).get(self._rank) is not None


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
