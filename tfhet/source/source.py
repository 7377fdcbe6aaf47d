"""The protocol of a source (`tfhet.source.SyntheticSource` is the shortest example), the ids that it gives to examples,
and records that cannot be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from tfhet.errors import UsageError

if TYPE_CHECKING:
    import tensorflow as tf

POSITION_BITS = 32
IdT = TypeVar("IdT", int, np.ndarray, "tf.Tensor")


def example_id(split: IdT, position: IdT) -> IdT:
    """Returns the id of an example, `split << 32 | position`, of ints, or of int64 arrays or tensors that broadcast."""
    return split * 2**POSITION_BITS + position


def split_of(ids: IdT) -> IdT:
    """The split of each id; int or int64 of the same shape."""
    return ids // 2**POSITION_BITS


def position_of(ids: IdT) -> IdT:
    """The position in its split of each id; int or int64 of the same shape."""
    return ids % 2**POSITION_BITS


def ids_at(rows: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the ids of examples by their numbers in all splits together; all int64 [n]. sizes: of the splits."""
    ends = np.cumsum(sizes)
    splits = np.searchsorted(ends, rows, side="right")
    return example_id(splits, rows - (ends - sizes)[splits])


def checked_ids(ids: Sequence[int] | np.ndarray, splits: int) -> np.ndarray:
    """Returns ids as int64 [n]. Raises UsageError for an id whose split is not below `splits`."""
    numbers = np.asarray(ids, np.int64).reshape(-1)
    wrong = numbers[(numbers < 0) | (numbers >= splits << POSITION_BITS)]
    if wrong.size:
        raise UsageError(
            f"example {wrong[0]} does not exist: its split would be {split_of(int(wrong[0]))}, and there are {splits}"
        )
    return numbers


@dataclass(frozen=True)
class BadRecord:
    """A record that cannot be used, and what is lost with it. `str` gives one line for people."""

    file: str
    """Path of the file; "" in a source without files."""
    offset: int
    """Byte at which the record starts."""
    split: int
    """Split that the record belongs to, from 0."""
    position: int
    """Position of the record in its split, from 0."""
    reason: str
    """Fault of the record, for people."""
    examples: int | None = 1
    """Number of examples that are lost: more than one where nothing after the record can be reached; None: unknown."""

    def __str__(self) -> str:
        place = f"{self.file} at byte {self.offset}" if self.file else f"split {self.split}, position {self.position}"
        return f"{place}: {self.reason}"


class Source(Protocol):
    """Records in splits. A worker takes one split at a time: a file, or a part of a synthetic set."""

    @property
    def name(self) -> str:
        """Kind of the source, for reports: `tfrecord`, `synthetic`."""

    def split_count(self) -> int:
        """Returns the number of splits."""

    def example_count(self) -> int | None:
        """Returns the number of examples in all splits; None when that is unknown without reading them."""

    def split_sizes(self) -> tuple[int, ...] | None:
        """Returns the number of readable examples of each split; None when that is unknown without reading them."""

    def read(self, split: tf.Tensor) -> tf.data.Dataset:
        """Returns the records of one split in order, each as (position, record); position: int64 scalar, from 0. split:
        int64 scalar, symbolic where `read` is called inside `Dataset.interleave`."""

    def read_at(self, ids: Sequence[int] | np.ndarray) -> tf.data.Dataset:
        """Returns the records of these ids, int64 [n], in their order, as (split, position, record), int64 scalars.
        Records are read one by one, which is slower than `read`. One that cannot be read raises its own error when
        its turn comes (DataLossError, NotFoundError, InvalidArgumentError), and the next one follows: `ignore_errors`
        leaves only the bad records out. Raises UsageError for an id whose split does not exist."""

    def places(self, ids: Sequence[int] | np.ndarray) -> list[tuple[str, int]]:
        """Returns the file and the byte at which the record of each id starts; ("", 0) in a source without files.
        Raises UsageError for an id whose split does not exist."""

    def parse(self, records: Any) -> dict[str, tf.Tensor]:
        """Turns a batch of records, as `read` yields them, into features by name, each [batch, ...]."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """Specs of the features that `parse` returns, ArraySpec or tf.TensorSpec, the leading dimension None; known
        without reading data."""

    def fingerprint(self) -> str:
        """Returns a hex digest of everything that decides the content, equal in every process and on every host."""

    def check(self) -> None:
        """Raises UsageError or DataError (with file and byte offset) for data that could not be read later."""

    def damages(self) -> tuple[BadRecord, ...]:
        """Returns the broken places that `check` found and skipped, where the source skips bad records. `split_sizes`
        does not count the examples that cannot be reached after such a place."""


@runtime_checkable
class IndexedSource(Protocol):
    """A source whose examples can be read in any order, without TensorFlow."""

    name: str
    """Kind of the source."""

    def sizes(self) -> np.ndarray:
        """Returns the number of examples of each split, int64 [splits]; it may read files. The id of an example is
        `split << 32 | position`."""

    def can_load(self) -> bool:
        """Whether `load` works for this data on this host."""

    def load(self, ids: np.ndarray) -> dict[str, Any]:
        """Returns the features of examples by name: image files as a sequence of bytes, other features as arrays [n,
        ...]. Threads may call it at the same time. ids: int64 [n]. Raises DataError for one that cannot be read."""

    def places(self, ids: Sequence[int] | np.ndarray) -> list[tuple[str, int]]:
        """See `Source`."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """See `Source`."""

    def fingerprint(self) -> str:
        """See `Source`."""

    def as_json(self) -> dict[str, Any]:
        """Returns JSON values from which `from_json` of the class makes an equal source on another host."""


@runtime_checkable
class BlockSource(Protocol):
    """A source that can also read blocks of neighbouring examples, which costs less than reading them one by one."""

    def reads_blocks(self) -> bool:
        """Whether `read_blocks` works for this data on this host."""

    def read_blocks(self, split: tf.Tensor, epoch: tf.Tensor) -> tf.data.Dataset:
        """Returns the examples of one split in order and parsed, in blocks of any size from 1. split, epoch: int64
        scalars. A block is (ids int64 [block], epochs int64 [block], features by name, each [block, ...])."""


@runtime_checkable
class SeekingSource(Protocol):
    """A source that can also read a split from one of its records on, without those before it."""

    def starts(self, positions: np.ndarray) -> np.ndarray:
        """Returns the byte at which each split's record at `positions` starts; both int64 [splits]."""

    def read_from(self, split: tf.Tensor, position: tf.Tensor, offset: tf.Tensor) -> tf.data.Dataset:
        """Returns what `read` does, from the record at `position` on, which starts at byte `offset`; int64 scalars."""
