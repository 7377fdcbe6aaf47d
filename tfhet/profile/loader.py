"""The profile of a loader of any Python: of each transform if its dataset has a list of them.

PyTorch's datasets have `dataset.transform.transforms` by convention, as torchvision's Compose does. Every round
measures each prefix of the list, so a machine that becomes slower slows all alike. The CPU time is of the process,
with all threads of libraries.
"""

from __future__ import annotations

import functools
import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import UsageError
from tfhet.events import Event, Observer, ignore
from tfhet.planes import Loader
from tfhet.planes.feed import BatchRequest, EndOfShard, Production, Shard, examples_in
from tfhet.profile.effort import Effort
from tfhet.profile.result import PYTHON, Cost, Profile

PROBE_CPU_S = 0.1
"""Minimum CPU seconds of the run that estimates the cost of an example."""


@dataclass
class _Prefix:
    """The beginning of a chain. draw: makes elements endlessly. examples: number in an element."""

    name: str
    draw: Callable[[], Iterator[Any]]
    examples: int = 1
    cumulative_us: list[float] = field(default_factory=list)

    def cpu_us(self, elements: int, clock: Clock) -> float:
        iterator = self.draw()
        began_s = clock.cpu()
        for _ in range(elements):
            next(iterator)
        return 1e6 * (clock.cpu() - began_s) / (elements * self.examples)

    def cost(self) -> Cost:
        sizes, dtype = _bytes_of(next(self.draw()))
        given = (self.name, tuple(self.cumulative_us))
        return Cost(*given, (), round(sizes / self.examples), dtype, self.examples, PYTHON)


def measure_loader(loader: Loader, effort: Effort, *, observer: Observer = ignore, clock: Clock = SYSTEM) -> Profile:
    """Returns the profile of a loader's function in this process. Raises UsageError if it makes nothing."""
    prefixes = list(_of_dataset(loader) if loader.source.batch_size else _of_iterable(loader))
    whole = prefixes[-1]
    count, each_us = 1, whole.cpu_us(1, clock)
    while each_us * count * whole.examples < PROBE_CPU_S * 1e6:
        count *= 2
        each_us = whole.cpu_us(count, clock)
    round_us = each_us * (len(prefixes) / 2 + 1)
    examples = int(effort.budget_s * 1e6 / (effort.repeats + 1) / max(round_us, 0.01))
    observer(Event("profile.started", clock.wall(), {"parts": [p.name for p in prefixes], "examples": examples}))
    for turn in range(effort.repeats + 1):
        gc.collect()
        for prefix in prefixes:
            prefix.cumulative_us.append(prefix.cpu_us(max(2, examples // prefix.examples), clock))
        observer(Event("profile.round", clock.wall(), {"done": turn, "total": effort.repeats}))
    for prefix in prefixes:  # without the first round, which is for warm-up
        del prefix.cumulative_us[0]
    return Profile("loader", tuple(prefix.cost() for prefix in prefixes), examples)


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
