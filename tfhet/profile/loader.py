"""The profile of a loader of any Python: of each transform if its dataset has a list of them.

PyTorch's datasets have `dataset.transform.transforms` by convention, as torchvision's Compose does. Every round
measures each prefix of the list. The CPU time is of the process, with all threads of libraries.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import UsageError
from tfhet.events import Observer, ignore
from tfhet.planes import Loader
from tfhet.planes.feed import BatchRequest, EndOfShard, Production, Shard, examples_in
from tfhet.profile.effort import Effort
from tfhet.profile.repeated import PartTime, Samples, affordable, repeated
from tfhet.profile.result import PYTHON, Cost, Profile

LEAST_ELEMENTS = 2
"""Minimum elements of a part in a run."""


@dataclass
class _Prefix:
    """The beginning of a chain. draw: makes elements endlessly. examples: number in an element."""

    name: str
    draw: Callable[[], Iterator[Any]]
    examples: int = 1

    def time(self, examples: int, clock: Clock) -> PartTime:
        iterator, elements = self.draw(), max(LEAST_ELEMENTS, examples // self.examples)
        began_s = clock.cpu()
        for _ in range(elements):
            next(iterator)
        return PartTime(1e6 * (clock.cpu() - began_s) / (elements * self.examples))

    def cost(self, samples: Samples) -> Cost:
        sizes, dtype = _bytes_of(next(self.draw()))
        return Cost(self.name, *samples, round(sizes / self.examples), dtype, self.examples, PYTHON)


def measure_loader(loader: Loader, effort: Effort, *, observer: Observer = ignore, clock: Clock = SYSTEM) -> Profile:
    """Returns the profile of a loader's function in this process. Raises UsageError if it makes nothing."""
    prefixes = list(_of_dataset(loader) if loader.source.batch_size else _of_iterable(loader))

    def run(examples: int) -> list[PartTime]:
        return [prefix.time(examples, clock) for prefix in prefixes]

    examples = affordable(run, LEAST_ELEMENTS * prefixes[-1].examples, effort, clock)
    samples = repeated([prefix.name for prefix in prefixes], run, examples, effort, observer, clock)
    costs = (prefix.cost(each) for prefix, each in zip(prefixes, samples, strict=True))
    return Profile("loader", tuple(costs), examples)


def _of_iterable(loader: Loader) -> Iterator[_Prefix]:
    """The whole: the inside of an iterable is unknown."""
    first = next(_epoch(loader), None)
    if first is None:
        raise UsageError(f"{loader.source} makes no batch: a profile needs some")
    yield _Prefix(str(loader.source), functools.partial(_endless, loader), examples_in(first))


def _epoch(loader: Loader, epoch: int = 0) -> Iterator[Any]:
    production = Production(loader.source, 0)
    for number in itertools.count():
        made = production.batch(BatchRequest(Shard(0, 1, epoch), number, number))
        if made is None or isinstance(made, EndOfShard):
            return
        yield made.value


def _endless(loader: Loader) -> Iterator[Any]:
    for epoch in itertools.count():
        yield from _epoch(loader, epoch)


def _of_dataset(loader: Loader) -> Iterator[_Prefix]:
    dataset = loader.source.make(Shard(0, 1))
    if not len(dataset):
        raise UsageError(f"{loader.source} has no examples: a profile needs some")

    def single() -> Iterator[Any]:
        return (dataset[index] for index in itertools.cycle(range(len(dataset))))

    compose = getattr(dataset, "transform", None)
    transforms = list(getattr(compose, "transforms", ()))
    for count in range(len(transforms)):
        name = _name(transforms[count - 1]) if count else "dataset"
        yield _Prefix(name, _with(dataset, transforms[:count], single))
    yield _Prefix(_name(transforms[-1]) if transforms else "dataset", single)

    yield _Prefix("batch", functools.partial(_endless, loader), loader.source.batch_size)


def _with(dataset: Any, transforms: Sequence[Callable[[Any], Any]], draw: Callable[[], Iterator[Any]]) -> Any:
    """Returns `draw` while the dataset has only these transforms."""

    def applied(example: Any) -> Any:
        for transform in transforms:
            example = transform(example)
        return example

    def drawn() -> Iterator[Any]:
        iterator = draw()
        while True:
            whole, dataset.transform = dataset.transform, applied
            try:
                element = next(iterator)
            finally:
                dataset.transform = whole
            yield element

    return drawn


def _name(transform: Any) -> str:
    return str(getattr(transform, "__name__", type(transform).__name__))


def _bytes_of(element: Any) -> tuple[int, str]:
    """Returns bytes of the arrays of an element, and the dtype of most bytes."""
    sizes: dict[str, int] = {}

    def add(part: Any) -> None:
        if isinstance(part, dict):
            part = list(part.values())
        if isinstance(part, (list, tuple)):
            for each in part:
                add(each)
        elif isinstance(part, (str, bytes)):
            sizes["string"] = sizes.get("string", 0) + len(part)
        elif part is not None:
            array = np.asarray(part.detach().cpu() if hasattr(part, "detach") else part)
            if not array.dtype.hasobject:
                sizes[array.dtype.name] = sizes.get(array.dtype.name, 0) + array.nbytes

    add(element)
    return sum(sizes.values()), max(sizes, key=lambda name: sizes[name], default="")
