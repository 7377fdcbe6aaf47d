"""The leader's account of reports: steps of all ranks, examples read, restarts of servers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import msgspec
import numpy as np

from tfhet.launch.agreement import Agreement
from tfhet.messages import link, rank
from tfhet.record import RunSummary, Visits
from tfhet.schema import MessageError, parse
from tfhet.source import IdCount

VAIN_LIMIT = 12
"""Maximum number of restarts of one process without a batch for any rank in between. `planes.supervised.RestartPolicy`
does not notice a process that dies at its first batch, because it serves for some seconds each time."""


class _Epoch:
    def __init__(self) -> None:
        self.by_rank: Counter[int] = Counter()
        self.count = IdCount()

    def add(self, number: int, ids: np.ndarray) -> None:
        self.by_rank[number] += len(ids)
        self.count.add(ids)


class Account:
    """The reports of the scripts of all `size` ranks, in the leader."""

    def __init__(self, size: int, on_failure: Callable[[int, str], None] = lambda code, cause: None):
        """on_failure: called with exit code and cause if the job has to fail."""
        self._size = size
        self._agreement = Agreement(size)
        self._on_failure = on_failure
        self._standings: dict[int, rank.Standing] = {}
        self._epochs: defaultdict[int, _Epoch] = defaultdict(_Epoch)
        self._over: dict[int, int] = {}
        self._expected: int | None = None
        self._contributions: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def heard(self, report: link.ScriptReport) -> rank.Gathered | None:
        """Takes a report. Returns the values of all ranks with the last contribution under a key. Raises MessageError
        for a report that is wrong."""
        number = report.rank
        if number >= self._size:
            raise MessageError(f"script: there is no rank {number}")
        found: rank.Report = parse(report.facts, rank.Report)
        if isinstance(found, rank.Standing):
            self._standings[number] = found
        elif isinstance(found, rank.Delivered):
            self._epochs[found.epoch].add(number, rank.unpacked(found.ids))
            self._expected, self._over[number] = found.expected, found.over
        elif isinstance(found, rank.Weights):
            if (cause := self._agreement.add(number, found)) is not None:
                self._on_failure(1, cause)
        elif isinstance(found, rank.Contribution):
            values = self._contributions[found.key]
            values[number] = found.value
            if len(values) == self._size:
                del self._contributions[found.key]
                return rank.Gathered(found.key, tuple(values[each] for each in range(self._size)))
        return None

    def completed(self, summary: RunSummary) -> RunSummary:
        """Rank 0's summary with the reports of all ranks; the built-in trainer's summary is unchanged."""
        if not self._standings:
            return summary
        standings = sorted(self._standings.items())
        by_rank = [{"rank": number, **msgspec.structs.asdict(standing)} for number, standing in standings]
        if 0 in self._standings and summary.wait_pct == self._standings[0].wait_pct:  # else the script wrote its own
            summary = replace(summary, wait_pct=sum(each["wait_pct"] for each in by_rank) / len(by_rank))
        epochs: dict[Any, dict[str, Any]] = {epoch.get("epoch"): dict(epoch) for epoch in summary.epochs}
        why = self._lacking() if self._epochs else None
        for number in sorted(self._epochs):
            begun = epochs.setdefault(number, {"epoch": number, "steps": 0, "examples": 0})
            begun.update(self._visits(number, is_whole=why is None))
        return replace(summary, by_rank=by_rank, not_counted=why or summary.not_counted, epochs=list(epochs.values()))

    def _lacking(self) -> str | None:
        received = sum((epoch.by_rank for epoch in self._epochs.values()), Counter[int]())
        lost = sum(max(0, each.delivered - received[number]) for number, each in self._standings.items())
        silent = self._size - len(self._standings)
        if lost:
            return f"the ids of {lost} examples did not reach the leader"
        return f"{silent} of {self._size} ranks did not report" if silent else None

    def _visits(self, number: int, is_whole: bool) -> dict[str, Any]:
        """The account of an epoch. is_whole: whether all ids are here."""
        epoch, expected = self._epochs[number], self._expected
        found, twice = epoch.count.found.count, epoch.count.twice.count
        rest = None if expected is None else expected - found
        is_over = is_whole and len(self._over) == self._size and number < min(self._over.values())
        missing, left = (rest, 0) if is_over else (0 if rest is not None else None, rest)
        seen = sum(epoch.by_rank.values())
        visits = asdict(Visits(expected, 0, seen, found - twice, twice, 0, missing, 0))
        return {**visits, "left": left, "by_rank": [epoch.by_rank[number] for number in range(self._size)]}


class Restarts:
    """Counts the restarts of processes of the data plane in the leader, and whether they help."""

    def __init__(self, progress: Callable[[], int | None]):
        """progress: returns a number that changes when a rank gets a batch; None if it is unknown."""
        self.count = 0
        self._progress = progress
        self._seen: int | None = None
        self._in_vain: Counter[tuple[str, str]] = Counter()

    def add(self, report: link.Restarted) -> str | None:
        """Counts a restart. Returns why the job cannot continue, or None."""
        self.count += 1
        seen = self._progress()
        if seen is None:
            return None
        if seen != self._seen:
            self._seen = seen
            self._in_vain.clear()
        process = report.host, report.process
        self._in_vain[process] += 1
        if self._in_vain[process] <= VAIN_LIMIT:
            return None
        return (
            f"{report.cause}; it was started again {VAIN_LIMIT} times, and no rank got a batch meanwhile: "
            f"see its lines in the log of {report.host}, and whether that host has enough memory"
        )
