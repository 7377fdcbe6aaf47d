"""The actor that runs a Ray data set for all ranks, an epoch at a time, and distributes its batches.

    dealing = Dealing(size=2, batch_size=32)
    dealing.add(block, rows=100)          # as blocks become ready: three batches, and 4 rows that wait for more
    dealing.answer(rank=0, number=0)      # a Portion; EndOfShare if there is none; None if it is not known yet

The actor runs on the leader's host and uses no CPU of the cluster. It names a batch by parts of blocks, which stay on
the host that made them until a rank fetches them. It is ahead of the ranks by a limited number of batches.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tfhet.clock import SYSTEM
from tfhet.errors import DataError, NotReady
from tfhet.planes.ray import private

HELD_FOR_A_RANK = 4
"""Maximum number of ready batches for each rank."""
ANSWER_S = 5.0
"""Seconds after which a rank must request again, so that it notices a lost coordinator."""


@dataclass(frozen=True)
class Portion:
    """One batch."""

    parts: tuple[tuple[Any, int, int], ...]
    """References to blocks, each with its first row and the row after its last."""
    rows: int | None
    """Number of rows in the whole epoch; None if it is not known yet."""


@dataclass(frozen=True)
class EndOfShare:
    """The rank has received all of its batches."""

    left: int
    """Number of batches that no rank gets."""
    rows: int


@dataclass(eq=False)
class Dealing:
    """Distributes the batches of one epoch to ranks. Not thread-safe."""

    size: int
    """Number of ranks."""
    batch_size: int = 0
    """Rows of a batch; 0: each block is one."""
    is_equal: bool = True
    """Whether batches that fill no round of all ranks are left over; otherwise their rows are divided among all
    ranks."""
    drop_last: bool = False
    rows: int = 0  # added
    made: int = 0  # batches of these rows
    is_over: bool = False
    _ready: deque[tuple[tuple[Any, int, int], ...]] = field(default_factory=deque)
    _rest: list[tuple[Any, int, int]] = field(default_factory=list)
    _dealt: dict[tuple[int, int], tuple[tuple[Any, int, int], ...]] = field(default_factory=dict)
    _rounds: int = 0

    def add(self, block: Any, rows: int, first: int = 0) -> None:
        """Adds `rows` rows of a block, beginning with row `first`."""
        self.rows += rows
        at, end = first, first + rows
        while at < end:
            upto = end
            if self.batch_size:
                upto = min(end, at + self.batch_size - sum(stop - start for _, start, stop in self._rest))
            self._rest.append((block, at, upto))
            at = upto
            if not self.batch_size or sum(stop - start for _, start, stop in self._rest) == self.batch_size:
                self._finish()

    def end(self) -> None:
        """Called after the last block. Raises DataError if the rows are too few to be divided among all ranks."""
        if self._rest and not self.drop_last:
            self._finish()
        self._rest = []
        if not self.is_equal and len(self._ready) % self.size:
            self._divide()
        self.is_over = True

    def _divide(self) -> None:
        """Divides the batches that are left, of up to two rounds, into equally many for all ranks."""
        batches = -(-len(self._ready) // self.size) * self.size
        parts = [part for batch in self._ready for part in batch]
        rows = sum(stop - start for _, start, stop in parts)
        if rows < batches:
            raise DataError(
                f"{self.rows} rows of validation data cannot be divided into equally many batches for {self.size} "
                "ranks: use larger batches, or read all of it on every rank, without tfhet"
            )
        self.made += batches - len(self._ready)
        self._ready.clear()
        for number in range(batches):
            self._ready.append(_rows(parts, number * rows // batches, (number + 1) * rows // batches))

    def _finish(self) -> None:
        self._ready.append(tuple(self._rest))
        self._rest = []
        self.made += 1

    @property
    def waiting(self) -> int:
        """Number of ready batches that no rank has received."""
        return len(self._ready) + len(self._dealt)

    def answer(self, rank: int, number: int) -> Portion | EndOfShare | None:
        """Returns a batch of a rank's share; the rank must request each number once, in order from 0. Distributes a
        round when the next one is complete or the epoch has ended. The last round holds `rows`."""
        while len(self._ready) >= self.size * (1 if self.is_over else 2):
            for each in range(self.size):
                self._dealt[each, self._rounds] = self._ready.popleft()
            self._rounds += 1
        if (rank, number) in self._dealt:
            is_last = self.is_over and number == self._rounds - 1
            return Portion(self._dealt.pop((rank, number)), self.rows if is_last else None)
        return EndOfShare(self.made % self.size, self.rows) if self.is_over else None


def _rows(parts: list[tuple[Any, int, int]], begin: int, end: int) -> tuple[tuple[Any, int, int], ...]:
    """Returns the rows from `begin` up to `end` of all parts together."""
    found, at = [], 0
    for block, start, stop in parts:
        first, last = max(begin - at, 0), min(end - at, stop - start)
        if first < last:
            found.append((block, start + first, start + last))
        at += stop - start
    return tuple(found)


class Coordinator:
    """Thread-safe. A *pass* is an epoch that is read; all ranks count passes alike. The coordinator keeps it until
    every rank has begun a later one."""

    def __init__(self, size: int, batch_size: int, is_equal: bool, drop_last: bool):
        # Ray Data would print a second time the error that the rank raises.
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        self._arguments = (size, batch_size, is_equal, drop_last)
        self._most = HELD_FOR_A_RANK * size
        self._passes: dict[int, Dealing] = {}
        self._errors: dict[int, str] = {}
        self._at = [0] * size
        """The latest pass of each rank."""
        self._changed = threading.Condition()

    def begin(self, number: int, dataset: Any) -> None:
        """Begins a pass and ends the earlier ones, whose threads end at their next block."""
        with self._changed:
            for earlier, one in self._passes.items():
                if earlier not in self._errors:
                    one.end()
            self._passes[number] = dealing = Dealing(*self._arguments)
            self._changed.notify_all()
        threading.Thread(target=self._run, args=(number, dealing, dataset), name="pass", daemon=True).start()

    def batch(self, number: int, rank: int, index: int) -> Portion | EndOfShare | str | None:
        """Returns a batch of a rank's share, the text of an error of the user's code, or None: request it again. Raises
        NotReady for a pass that every rank has ended."""
        end_s = SYSTEM.monotonic() + ANSWER_S
        with self._changed:
            self._enter(rank, number)
            while (left_s := end_s - SYSTEM.monotonic()) > 0:
                if number < min(self._at):
                    raise NotReady(f"pass {number} of the data set has ended: every rank has begun a later one")
                dealing = self._passes.get(number)
                if dealing is not None:
                    found = dealing.answer(rank, index)
                    if found is not None:
                        self._changed.notify_all()
                        return found
                    if number in self._errors:
                        return self._errors[number]
                self._changed.wait(left_s)
        return None

    def _enter(self, rank: int, number: int) -> None:
        """Notes which pass a rank reads, and drops the passes that no rank reads any more."""
        if number <= self._at[rank]:
            return
        self._at[rank] = number
        for gone in [each for each in self._passes if each < min(self._at)]:
            self._passes.pop(gone).is_over = True
            self._errors.pop(gone, None)
        self._changed.notify_all()

    def _run(self, number: int, dealing: Dealing, dataset: Any) -> None:
        try:
            for block, first, rows in private.blocks(dataset):
                with self._changed:
                    while dealing.waiting >= self._most and not dealing.is_over:
                        self._changed.wait()
                    if dealing.is_over:
                        return
                    dealing.add(block, rows, first)
                    self._changed.notify_all()
                del block
            with self._changed:
                if not dealing.is_over:
                    dealing.end()
                self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001  the user's code may raise anything; the ranks raise it, too
            with self._changed:
                if dealing.is_over:  # it was left early
                    return
                self._errors[number] = private.of_the_user("".join(traceback.format_exception_only(type(error), error)))
                self._changed.notify_all()
