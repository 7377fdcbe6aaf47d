"""How the batches of a Ray data set are dealt out to ranks, by the rows of its blocks alone.

    dealing = Dealing(size=2, batch_size=32)
    dealing.add(block, rows=100)          # as blocks become ready: three batches, and 4 rows that wait for more
    dealing.answer(rank=0, number=0)      # a Portion; None while it is not known; Over(batches) when there is none

A batch is named by parts of blocks, so that nothing of it passes through the process that deals.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Portion:
    """One batch."""

    parts: tuple[tuple[Any, int, int], ...]
    """References to blocks, each with the first row and the one after the last."""
    rows: int | None
    """Number of rows in the whole epoch, once that is known; None before."""


@dataclass(frozen=True)
class Over:
    """The rank has had its share."""

    left: int
    """Number of batches that no rank gets."""
    rows: int


@dataclass(eq=False)
class Dealing:
    """One epoch. Not for several threads at once."""

    size: int
    """Number of ranks."""
    batch_size: int = 0
    """Rows of a batch; 0: each block is one."""
    is_equal: bool = True
    """Whether all ranks get the same number of batches; otherwise each comes to the rank that asks first."""
    drop_last: bool = False
    rows: int = 0
    """Number of rows that were added."""
    made: int = 0
    """Number of batches that were made of them."""
    is_over: bool = False
    _ready: deque[tuple[tuple[Any, int, int], ...]] = field(default_factory=deque)
    _rest: list[tuple[Any, int, int]] = field(default_factory=list)
    _dealt: dict[tuple[int, int], tuple[tuple[Any, int, int], ...]] = field(default_factory=dict)
    _rounds: int = 0

    def add(self, block: Any, rows: int, first: int = 0) -> None:
        """Takes `rows` rows of a block, from `first` on."""
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
        """Says that there are no more blocks."""
        if self._rest and not self.drop_last:
            self._finish()
        self._rest, self.is_over = [], True

    def _finish(self) -> None:
        self._ready.append(tuple(self._rest))
        self._rest = []
        self.made += 1

    @property
    def waiting(self) -> int:
        """Number of batches that are ready and that no rank has taken."""
        return len(self._ready) + len(self._dealt)

    def answer(self, rank: int, number: int) -> Portion | Over | None:
        """The batch with this number, from 0, of a rank's share; to be asked for once, in the order of numbers."""
        return self._in_rounds(rank, number) if self.is_equal else self._in_turn()

    def _in_turn(self) -> Portion | Over | None:
        if self._ready and (self.is_over or len(self._ready) > 1):  # the last one says how many rows there are
            return Portion(self._ready.popleft(), self.rows if self.is_over else None)
        return Over(0, self.rows) if self.is_over else None

    def _in_rounds(self, rank: int, number: int) -> Portion | Over | None:
        """A round is dealt out when the next one is complete or the epoch is over: its batches say how many rows there
        are if it is the last."""
        while len(self._ready) >= self.size * (1 if self.is_over else 2):
            for each in range(self.size):
                self._dealt[each, self._rounds] = self._ready.popleft()
            self._rounds += 1
        if (rank, number) in self._dealt:
            is_last = self.is_over and number == self._rounds - 1
            return Portion(self._dealt.pop((rank, number)), self.rows if is_last else None)
        return Over(self.made % self.size, self.rows) if self.is_over else None
