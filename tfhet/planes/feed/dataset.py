"""The map-style dataset of a source: every process makes the same one, and readers compare what the processes made."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from tfhet.errors import DataError, UsageError
from tfhet.pipeline import BatchMaker
from tfhet.planes.feed.source import FeedSource, Randomness, Shard, digest
from tfhet.schema import Count

MOST_LISTS, MOST_DEPTH = 64, 4
"""Limits for the lists that are compared, and for datasets within datasets."""
MOST_COMPARED, MOST_COLUMNS, MOST_TEXT = 100_000, 64, 256
"""Limits for what is compared of a list: entries, evenly spread; values of an entry; characters at each end of it."""


@dataclass(frozen=True)
class DatasetFacts:
    """What all processes must agree about."""

    examples: Count
    lists: Mapping[str, str] = field(default_factory=dict)
    """Digests of the lists that determine the order of the examples, such as `files`, by attribute."""

    def difference(self, other: DatasetFacts) -> str | None:
        """Returns what differs, as words; None if nothing does."""
        if self.examples != other.examples:
            return f"{self.examples} and {other.examples} examples"
        names = sorted(one for one in self.lists.keys() | other.lists if self.lists.get(one) != other.lists.get(one))
        return f"different values or another order in {', '.join(names)}" if names else None

    @property
    def order(self) -> str:
        """One digest of all lists."""
        return digest(self.lists)


class Agreement:
    """The facts of a dataset that all processes must report, or examples would arrive twice and never."""

    def __init__(self, source: FeedSource):
        self.facts: DatasetFacts | None = None
        """The first facts that were reported."""
        self._source, self._by = source, ""

    def add(self, server: str, facts: DatasetFacts) -> None:
        """server: the process that reports. Raises DataError if its facts are not the first ones."""
        if self.facts is None:
            self.facts, self._by = facts, server
        if difference := self.facts.difference(facts):
            raise DataError(
                f"{self._source} returned datasets that differ on {self._by} and {server}: {difference}; all processes "
                "must number the same examples alike: have all files there before the job starts, and sort the lists "
                "of files"
            )


def make(source: FeedSource, shard: Shard) -> Any:
    """Returns the result of the source's function. Raises UsageError for a data set of Ray."""
    made = source.make(shard)
    if hasattr(made, "iter_internal_ref_bundles"):
        raise UsageError(f"{source} returned a Ray data set, which --data_plane ray reads; start the job with it")
    return made


def make_dataset(source: FeedSource, seed: int, *, leaves_trace: bool = False) -> Any:
    """Returns the dataset of the source's function, made from the same random numbers in every process.

    Raises:
        UsageError: The function returned something else.
    """
    source.load()
    with Randomness(seed, leaves_trace=leaves_trace):
        made = make(source, Shard(0, 1, 0, seed))
    if isinstance(made, BatchMaker) or (hasattr(made, "__len__") and hasattr(made, "__getitem__")):
        return made
    raise UsageError(
        f"{source} returned {type(made).__name__}, which has no __len__ and __getitem__: batch_size is for datasets "
        "that have; without batch_size the function returns an iterable of batches"
    )


def facts_of(dataset: Any) -> DatasetFacts:
    if isinstance(dataset, BatchMaker):
        return DatasetFacts(len(dataset), {"data": dataset.source.fingerprint()})
    digests: dict[str, str] = {}
    with contextlib.suppress(Exception):  # attributes of the user's classes
        for name, values in itertools.islice(_lists(dataset, len(dataset), "", MOST_DEPTH), MOST_LISTS):
            if found := _digest_of(values):
                digests[name or "its items"] = found
    return DatasetFacts(len(dataset), digests)


def _lists(dataset: Any, length: int, prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yields the lists in a dataset that have an entry per example, or texts, with their names."""
    attributes = {"": dataset} if isinstance(dataset, (list, tuple)) else getattr(dataset, "__dict__", {})
    for attribute, value in attributes.items():
        name = f"{prefix}{attribute}"
        if isinstance(value, (list, tuple, dict)):
            of_all = value.items() if isinstance(value, dict) else value
            entries = list(itertools.islice(of_all, 0, None, _step(len(value))))
            if len(value) == length or isinstance(next(iter(entries), None), (str, PurePath)):
                yield name, entries
            for at, part in enumerate(entries[:MOST_LISTS] if depth else ()):  # the datasets of a ConcatDataset
                if _is_dataset(part):
                    yield from _lists(part, len(part), f"{name}[{at}].", depth - 1)
        elif (array := _array(value, length)) is not None:
            yield name, array
        elif depth and _is_dataset(value):  # the dataset of a Subset
            yield from _lists(value, len(value), f"{name}.", depth - 1)


def _array(value: Any, length: int) -> Any:
    """Returns an array, a tensor, or a table of pandas with an entry per example; None if it is none or has floating
    point numbers, which CPUs round differently."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    is_array = isinstance(value, np.ndarray) and value.ndim and not isinstance(value, np.memmap)  # which reads a file
    if not (is_array or hasattr(value, "to_numpy")) or len(value) != length:
        return None
    value = value[:: _step(length)]
    value = value.to_numpy() if hasattr(value, "to_numpy") else value
    return value.tolist() if value.dtype.kind in "OSU" else None if value.dtype.kind in "fc" else value


def _step(length: int) -> int:
    return max(1, -(-length // MOST_COMPARED))


def _is_dataset(value: Any) -> bool:
    return hasattr(value, "__dict__") and hasattr(value, "__getitem__") and hasattr(value, "__len__")


def _digest_of(values: Any) -> str:
    """Returns a digest of the texts and whole numbers in a list or an array, or "" if there are none."""
    if isinstance(values, np.ndarray):
        shown = np.ascontiguousarray(values.reshape(len(values), -1)[:, :MOST_COLUMNS]).tobytes()
        return hashlib.sha256(shown).hexdigest()[:16]
    keys = [_key(value) for value in values]
    if all(key in (None, ()) for key in keys):
        return ""
    rows = [key if isinstance(key, tuple) else (key,) for key in keys]
    is_table = len(set(map(len, rows))) == 1
    return digest([_without_folder(column) for column in zip(*rows, strict=True)] if is_table else rows)


def _without_folder(column: Sequence[Any]) -> Sequence[Any]:
    """Returns paths without the folder that all are in, which may have another name on another host."""
    if not all(isinstance(one, str) for one in column):
        return column
    begin = os.path.commonprefix([min(column), max(column)]).rfind("/") + 1
    return [one[begin:] for one in column]


def _key(value: Any) -> Any:
    if isinstance(value, bytes):
        value = value.hex()
    if isinstance(value, str):
        return value if len(value) <= 2 * MOST_TEXT else f"{value[:MOST_TEXT]}{value[-MOST_TEXT:]}{len(value)}"
    if isinstance(value, int):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, dict) or is_dataclass(value):
        value = list((value if isinstance(value, dict) else vars(value)).values())
    if isinstance(value, (list, tuple)):
        return tuple(key for one in value[:MOST_COLUMNS] if (key := _key(one)) is not None)
    return int(value) if isinstance(value, np.integer) else None
