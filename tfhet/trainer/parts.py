"""The parts of a pass over the data: what was lost, or could not be read at once, is read again until all was seen.
All ranks go through the same parts together: at the end of each they tell each other what they saw."""

from __future__ import annotations

import collections
import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from tfhet.errors import DataError, NotReady
from tfhet.pipeline import Rest
from tfhet.planes import Delivery, Reader
from tfhet.source import BadRecord
from tfhet.strategies import Collective
from tfhet.trainer.audit import Audit

AHEAD_S = 30.0
"""About how many seconds before the end of a pass the next one is made ready."""
MOST_EMPTY_PARTS = 5
"""Maximum number of consecutive parts without an example; after that the rest is given up."""
MOST_RESTARTS = 20
"""As above, where the data service was restarted: a host that is lost and returns causes up to five restarts."""
FEW = 4096
"""Up to this number of missing examples are read one by one, not in batches once more, where records are skipped."""
LISTED = 20
"""Number of bad records of an epoch that are diagnosed and listed; the others are only counted."""


@dataclass
class Course:
    """An epoch in progress: its length and its sums."""

    epoch: int
    steps: int
    """Steps in the epoch; 0: it is a whole pass."""
    first: int
    """Step at which the epoch began, in whichever run."""
    steps_expected: int
    """About how many steps the epoch has; the learning rate moves by it."""
    per_step: int
    """Examples of a full step of all ranks."""
    is_last: bool
    totals: np.ndarray = field(default_factory=lambda: np.zeros(3))
    """Examples, loss sum and correct answers so far, all ranks together."""

    def is_done(self, step: int) -> bool:
        """Whether the epoch has all its steps when `step` have been taken since the training began."""
        return bool(self.steps) and step - self.first >= self.steps

    def steps_left(self, left: float) -> float:
        """Full steps that `left` examples are good for."""
        return max(0, math.ceil(left / self.per_step)) if left < math.inf else math.inf

    def is_followed(self, step: int, left: float) -> bool:
        """Whether another pass follows after `step` steps of the training with `left` examples; equal on all ranks."""
        return not self.is_last or step - self.first + self.steps_left(left) < self.steps


@dataclass
class Skipped:
    """The bad records of a run."""

    budget: int = 0
    """Maximum number of lost examples; more end the training."""
    ids: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Ids that were found to be bad while reading, ascending; the same on every rank."""
    records: list[BadRecord] = field(default_factory=list)
    """Reasons for the first of them, and for those that the check of the source skipped; on rank 0."""
    unreachable: int = 0
    """Examples that the check of the source skipped, as far as their number is known."""

    def check(self) -> None:
        """Raises DataError beyond the budget."""
        count = len(self.ids) + self.unreachable
        if count > self.budget:
            listed = "; ".join(map(str, self.records[-3:])) or "rank 0 names some"
            raise DataError(f"{count} bad records, and --bad_record_budget is {self.budget}: {listed}")


@dataclass
class Parts:
    """Opens one pass part by part. All ranks construct it alike and take the same parts."""

    reader: Reader
    collective: Collective
    number: int
    """Number of the pass."""
    audit: Audit | None
    """None: it is not known what was seen, so there is one part."""
    skipped: Skipped | None
    """None: a bad record is an error."""
    agree: Callable[[], None]
    """Called on every rank when the data service was restarted."""
    may_lose: bool
    """Whether a pass without an audit may end early; if not, that is an error."""
    was_cut_off: bool = False
    """Whether the last part ended on some rank because the data service was restarted."""
    left: float = math.inf
    """Examples of the pass that are still to be trained on, over all ranks; infinite where that is not known."""
    _is_next_ready: bool = False
    _has_begun: bool = False
    _delivered: int = 0
    """Examples delivered by all parts before."""
    _empty_parts: int = 0
    """Number of consecutive parts without an example."""
    _singly: bool = False
    """Whether the examples that were left have been read one by one."""

    def __post_init__(self) -> None:
        if self.audit is not None:
            self.left = self.audit.left()

    def make_next_ready(self) -> None:
        """Makes the next pass ready while this one is read, once; again after the data service was restarted."""
        if not self._is_next_ready:
            self._is_next_ready = True
            self.reader.ahead(self.number + 1, self.collective.rank == 0)

    def leave(self, part: Iterator[Delivery]) -> None:
        """Reads a part whose examples have all arrived to its end, in a thread, so that the plane can close it."""
        threading.Thread(target=_read_to_end, args=(part,), name="tfhet-end", daemon=True).start()

    def next(self) -> Iterator[Delivery] | None:
        """Opens the next part and returns its batches; None at the end of the pass. Every rank calls it when all ranks
        have read the part before to its end. Raises DataError or NotReady when the rest is needed and cannot be had,
        and DataError for more bad records than the budget."""
        audit = self.audit
        if not self._has_begun:
            self._has_begun = True
            self.reader.failure = None
            if audit is None or not audit.is_resumed:
                return self._open(None, 0)
            if (rest := audit.rest(not self.reader.is_served)) is not None:
                return self._open(rest, 0)
        if audit is not None:
            audit.exchange()
            self._empty_parts = 0 if audit.count > self._delivered else self._empty_parts + 1
            self._delivered = audit.count
        (cut_off,) = self.collective.total([float(self.reader.was_cut_off)], "cut off")
        self.was_cut_off = bool(cut_off)
        if self.was_cut_off:
            self.agree()
            self._is_next_ready = False
        if audit is None:
            if self.was_cut_off and not self.may_lose:
                lost = "the data service was restarted in the middle of an epoch, because a data host was lost"
                raise DataError(f"{lost}; what is left of the epoch is not known with --audit False")
            return None
        rest = audit.rest(not self.reader.is_served) if self.was_cut_off or audit.sizes is not None else None
        return None if rest is None else self._again(audit, rest)

    def _again(self, audit: Audit, rest: Rest) -> Iterator[Delivery] | None:
        """Opens what is left: in batches while that helps, then, where bad records are skipped, one by one."""
        if self._empty_parts >= (MOST_RESTARTS if self.was_cut_off else MOST_EMPTY_PARTS):
            if self.reader.failure is not None:
                raise self.reader.failure
            if self.was_cut_off:
                raise NotReady(f"the data service was restarted {MOST_RESTARTS} times without delivering anything")
            return None
        in_batches = self.skipped is None or (not self._empty_parts and (audit.visits().missing or 0) > FEW)
        if self.was_cut_off or (self.reader.is_served and in_batches):
            audit.rereads += 1
            self.left = audit.left()  # fewer were counted as left where an example came twice
            return self._open(rest, audit.rereads)
        if self.skipped is None:
            return None
        if self._singly:
            self._mark_as_bad(self.skipped, audit)
            return None
        self._singly = True
        audit.rereads += 1
        return self.reader.singly(self.number, audit.missing())

    def _open(self, rest: Rest | None, part: int) -> Iterator[Delivery]:
        if self.collective.rank == 0 and (rest is not None or not self.reader.has_offered_ahead(self.number)):
            self.reader.offer(self.number, rest, part)
        self.collective.total([0.0], "offered")  # no rank reads before it is offered
        return self.reader.epoch(self.number, rest, part)

    def _mark_as_bad(self, skipped: Skipped, audit: Audit) -> None:
        """Counts as bad the examples that could not be read one by one. Raises DataError beyond the budget."""
        new = audit.missing()
        audit.bad = skipped.ids = np.union1d(skipped.ids, new)
        if self.collective.rank == 0:
            skipped.records += self.reader.diagnose(self.number, new[:LISTED])
        skipped.check()


def _read_to_end(part: Iterator[Delivery]) -> None:
    with contextlib.suppress(Exception):
        collections.deque(part, 0)
