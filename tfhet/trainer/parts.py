"""The parts of an epoch: what was lost on the way, or could not be read at once, is read again until all was seen.

All ranks go through the same parts together: at the end of each they tell each other what they saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from tfhet.errors import DataError, NotReady
from tfhet.placement import Rest
from tfhet.planes import Delivery, Reader
from tfhet.source import BadRecord
from tfhet.strategies import Collective
from tfhet.trainer.audit import Audit

IN_VAIN = 5
"""So many parts in a row without an example, and what is left cannot be had."""
FEW = 4096
"""So few examples are read one by one at once, where records may be skipped, before anybody tries them in batches."""
LISTED = 20
"""Bad records that are looked at and listed, of an epoch; the others are counted."""


@dataclass
class Skipped:
    """The bad records of a run."""

    budget: int = 0
    """More than so many end the training."""
    ids: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Of those that were found while reading, ascending; on every rank the same."""
    records: list[BadRecord] = field(default_factory=list)
    """What is wrong with them, the first ones, and what the check of the source passed over; on rank 0."""
    unreachable: int = 0
    """Examples behind places that the check passed over, as far as their number is known."""

    def check(self, first: str = "") -> None:
        """Raises DataError beyond the budget."""
        count = len(self.ids) + self.unreachable
        if count > self.budget:
            listed = "; ".join(map(str, self.records[-3:])) or first
            raise DataError(
                f"{count} bad records, and --bad_record_budget is {self.budget}: {listed or 'rank 0 names some'}"
            )


@dataclass
class Parts:
    """Gives one epoch part by part. All ranks construct it alike and take the same parts."""

    reader: Reader
    collective: Collective
    epoch: int
    audit: Audit | None
    """None: nobody knows what was seen, so there is one part."""
    skipped: Skipped | None
    """None: a bad record is an error."""
    agree: Callable[[], None]
    """Called on every rank when the data service began anew."""
    may_lose: bool = False
    """Whether a pass may end early when nobody knows what was seen of it; else that is an error."""
    was_cut_off: bool = False
    """Whether the last part ended because the data service began anew."""

    def __iter__(self) -> Iterator[Iterator[Delivery]]:
        audit, vain, singly, before = self.audit, 0, False, 0
        self.reader.failure = None
        rest = audit.rest() if audit is not None and audit.goes_on else None
        if rest is not None or audit is None or not audit.goes_on:
            yield self._open(rest, 0)
        while True:
            if audit is not None:
                audit.exchange(self.collective)
                vain, before = (0 if audit.count > before else vain + 1), audit.count
            (cut_off,) = self.collective.total([float(self.reader.was_cut_off)], "cut off")
            self.was_cut_off = bool(cut_off)
            if cut_off:
                self.agree()
            if audit is None:
                if cut_off and not self.may_lose:
                    raise DataError(
                        "the data service began anew in the middle of an epoch, because a data host was lost, and "
                        "with --audit False nobody knows what is left of it"
                    )
                return
            rest = audit.rest() if cut_off or audit.sizes is not None else None
            if rest is None:
                return
            if vain >= IN_VAIN:
                if self.reader.failure is not None:
                    raise self.reader.failure
                if cut_off:
                    raise NotReady(f"the data service began anew {IN_VAIN} times and gave nothing meanwhile")
                return
            few = self.skipped is not None and audit.sizes is not None and len(audit.missing()) <= FEW
            if cut_off or (self.reader.is_served and (not vain or self.skipped is None) and not few):
                audit.rereads += 1
                yield self._open(rest, audit.rereads)
            elif self.skipped is not None and not singly:
                audit.rereads, singly = audit.rereads + 1, True
                yield self.reader.singly(self.epoch, audit.missing())
            else:
                if self.skipped is not None:
                    self._give_up(self.skipped, audit)
                return

    def _open(self, rest: Rest | None, part: int) -> Iterator[Delivery]:
        if self.collective.rank == 0:
            self.reader.offer(self.epoch, rest, part)
        self.collective.total([0.0], "offered")  # nobody reads what is not offered yet
        return self.reader.epoch(self.epoch, rest, part)

    def _give_up(self, skipped: Skipped, audit: Audit) -> None:
        """What could not even be read by itself is bad. Raises DataError when that is too much."""
        new = audit.missing()
        skipped.ids = np.union1d(skipped.ids, new)
        audit.bad = skipped.ids
        if self.collective.rank == 0:
            skipped.records += self.reader.diagnose(self.epoch, new[:LISTED])
        skipped.check()
