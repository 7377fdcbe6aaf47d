"""Sources whose examples are repeated: several sources with weights, and one source with equally many of each class.

source = Mixed([(ImageFolder("photos"), 3), (TarSource("shards/*.tar"), 1)])    # 3 photos for each image of the tars
source = Balanced(ImageFolder("photos"))

An epoch ends when every example has been read at least once; examples of smaller groups come several times, each time
with another id, so that the stages draw other random numbers.
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfhet.errors import UsageError
from tfhet.source.array_spec import ArraySpec
from tfhet.source.described import source_as_json, source_from_json
from tfhet.source.indexed import Indexed
from tfhet.source.schedule import Schedule
from tfhet.source.source import IndexedSource, ids_at

_FEATURES = ("image", "label")
log = logging.getLogger("tfhet")


class Mixed(Indexed):
    """Several sources with weights, whose images have one form. An example's id is its place in the epoch.

    The length of an epoch is `example_count()`, about the largest `examples / weight` of a source times all weights.
    """

    name = "mixed"

    def __init__(self, sources: Sequence[tuple[IndexedSource, float]]) -> None:
        """
        Args:
            sources: Sources, each with its share of the examples, in any unit above 0.

        Raises:
            UsageError: There is no source, a weight is not above 0, or images or labels differ in form.
        """
        self.sources, self.weights = [source for source, _ in sources], [float(weight) for _, weight in sources]
        if not self.sources or not all(0 < weight < float("inf") for weight in self.weights):
            raise UsageError(f"Mixed needs (source, weight) pairs with weights above 0, not weights {self.weights}")
        for name in _FEATURES:
            if len(forms := {str(ArraySpec.of(source.spec[name])) for source in self.sources}) > 1:
                raise UsageError(f"sources of Mixed have one form of {name}, not {' and '.join(sorted(forms))}")

    def sizes(self) -> np.ndarray:
        return np.array([self._schedule.length], np.int64)

    @property
    def is_remote(self) -> bool:
        return any(getattr(source, "is_remote", False) for source in self.sources)

    def can_load(self) -> bool:
        return all(source.can_load() for source in self.sources)

    def load(self, ids: np.ndarray) -> dict[str, Any]:
        numbers, rows = self._located(self.rows(ids))
        found: dict[str, Any] = {}
        for number in np.unique(numbers).tolist():
            at, source = np.flatnonzero(numbers == number), self.sources[number]
            part = source.load(ids_at(rows[at], source.sizes()))
            for name in _FEATURES:
                if isinstance(values := part[name], np.ndarray):
                    found.setdefault(name, np.empty((len(rows), *values.shape[1:]), values.dtype))[at] = values
                else:
                    found.setdefault(name, np.empty(len(rows), object))[at] = np.fromiter(values, object, len(at))
        return {name: found[name].tolist() if found[name].dtype == object else found[name] for name in found}

    def places(self, ids: Sequence[int] | np.ndarray) -> list[tuple[str, int]]:
        numbers, rows = self._located(self.rows(ids))
        located = [(self.sources[number], row) for number, row in zip(numbers.tolist(), rows, strict=True)]
        return [source.places(ids_at(row[None], source.sizes()))[0] for source, row in located]

    @property
    def spec(self) -> dict[str, Any]:
        return {name: self.sources[0].spec[name] for name in _FEATURES}

    def fingerprint(self) -> str:
        """Returns a hex digest of the sources and the weights."""
        parts = [self.name, *(source.fingerprint() for source in self.sources), *map(str, self.weights)]
        return hashlib.blake2b(" ".join(parts).encode(), digest_size=16).hexdigest()

    def as_json(self) -> dict[str, Any]:
        return {"sources": list(map(source_as_json, self.sources)), "weights": self.weights}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Mixed:
        return Mixed(list(zip(map(source_from_json, document["sources"]), document["weights"], strict=True)))

    @functools.cached_property
    def _schedule(self) -> Schedule:
        sizes = np.array([source.sizes().sum() for source in self.sources], np.int64)
        made = Schedule(self.weights, sizes)
        if made.length > sizes.sum():
            longest = int(np.argmax(sizes / np.array(self.weights)))
            words = (
                "an epoch of Mixed has %d examples, %.1f times as many as its sources: it ends when all %d examples of"
            )
            log.info(f"{words} source %d are read", made.length, made.length / sizes.sum(), sizes[longest], longest)
        return made

    def _located(self, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the number of the source of each turn, and the example of all its splits, int64 [n] each."""
        return self._schedule(turns)


class Balanced(Mixed):
    """A source with equally many examples of each class. It needs the labels of all examples, `source.labels`."""

    name = "balanced"

    def __init__(self, source: Any) -> None:
        """source: ImageFolder, FileList, TarSource, ParquetSource, ArraySource, or another with integer `labels`, int64
        [examples]. Raises UsageError for others."""
        if not hasattr(source, "labels"):
            raise UsageError(f"Balanced needs the labels of all examples, and {type(source).__name__} has no `labels`")
        super().__init__([(source, 1.0)])

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Balanced:
        return Balanced(*map(source_from_json, document["sources"]))

    @functools.cached_property
    def _classes(self) -> tuple[np.ndarray, np.ndarray]:
        """The examples in the order of their classes, int64 [examples], and the sizes of the classes."""
        labels = self.sources[0].labels  # type: ignore[attr-defined]
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise UsageError(f"Balanced needs one integer label for each example, not {labels.dtype} {labels.shape}")
        return np.argsort(labels, kind="stable"), np.unique(labels, return_counts=True)[1]

    @functools.cached_property
    def _schedule(self) -> Schedule:
        sizes = self._classes[1]
        return Schedule(np.ones(len(sizes)), sizes)

    def _located(self, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        order, sizes = self._classes
        classes, examples = self._schedule(turns)
        return np.zeros(len(turns), np.int64), order[(np.cumsum(sizes) - sizes)[classes] + examples]
