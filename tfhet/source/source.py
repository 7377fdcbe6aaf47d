"""The source: where records begin, and the ids that every example carries from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.source.bad_record import BadRecord

POSITION_BITS = 32
IdT = TypeVar("IdT", int, tf.Tensor)


def example_id(split: IdT, position: IdT) -> IdT:
    """The id of an example: `split << 32 | position`. ints, or int64 tensors that broadcast."""
    return split * 2**POSITION_BITS + position


def split_of(ids: IdT) -> IdT:
    """The split of each id; int or int64 of the same shape."""
    return ids // 2**POSITION_BITS


def position_of(ids: IdT) -> IdT:
    """The position in its split of each id; int or int64 of the same shape."""
    return ids % 2**POSITION_BITS


def checked_ids(ids: Sequence[int] | np.ndarray, splits: int) -> np.ndarray:
    """ids as int64 [n]. Raises UsageError for one of a split that is not among the `splits` there are."""
    numbers = np.asarray(ids, np.int64).reshape(-1)
    wrong = numbers[(numbers < 0) | (numbers >= splits << POSITION_BITS)]
    if wrong.size:
        raise UsageError(f"there is no example {wrong[0]}: its split is {split_of(int(wrong[0]))}, of {splits} splits")
    return numbers


class Source(Protocol):
    """Records in splits. A split is what one worker takes at a time: a file, or a part of a synthetic set."""

    @property
    def name(self) -> str:
        """What kind of source this is, for reports."""

    def split_count(self) -> int:
        """How many splits there are."""

    def example_count(self) -> int | None:
        """How many examples there are in all; None when that is not known without reading them."""

    def split_sizes(self) -> tuple[int, ...] | None:
        """How many examples of each split can be reached; None when that is not known without reading them."""

    def read(self, split: tf.Tensor) -> tf.data.Dataset:
        """The records of one split in order, each as (position, record).

        split: int64 scalar, possibly symbolic: this is called inside `Dataset.interleave`. position: int64 scalar,
        from 0.
        """

    def read_at(self, ids: Sequence[int] | np.ndarray) -> tf.data.Dataset:
        """The records of these ids, int64 [n], in their order, each as (split, position, record), int64 scalars.

        Each is read for itself: one that cannot be read raises its own error when its turn comes (DataLossError,
        NotFoundError, InvalidArgumentError), and the next comes behind it, so `ignore_errors` leaves just the bad ones
        out. Slower than `read`. Raises UsageError for an id of a split that there is not.
        """

    def places(self, ids: Sequence[int] | np.ndarray) -> list[tuple[str, int]]:
        """Where the record of each id lies, as (file, byte); ("", 0) in a source without files. UsageError as above."""

    def parse(self, records: Any) -> dict[str, tf.Tensor]:
        """A batch of what `read` yields as records -> features by name, each [batch, ...]."""

    @property
    def spec(self) -> dict[str, tf.TensorSpec]:
        """What `parse` gives, the leading dimension None; known without running data."""

    def fingerprint(self) -> str:
        """A hex digest of everything that decides the content; the same in every process and on every host."""

    def check(self) -> None:
        """Looks for what would fail later.

        Raises UsageError (missing, mismatched) or DataError (with file and byte offset).
        """

    def damages(self) -> tuple[BadRecord, ...]:
        """What `check` found broken and passed over, because the source was told to: places behind which examples lie
        that are in none of the sizes."""


@runtime_checkable
class BlockSource(Protocol):
    """A source that may also read in blocks of neighbouring examples, which is cheaper than one by one."""

    def reads_blocks(self) -> bool:
        """Whether it can here, with this data."""

    def read_blocks(self, split: tf.Tensor, epoch: tf.Tensor) -> tf.data.Dataset:
        """The examples of one split in order and parsed, as (ids int64 [block], epochs int64 [block], features by name,
        each [block, ...]); blocks of any size from 1. split, epoch: int64 scalars. Only where `reads_blocks()`."""
