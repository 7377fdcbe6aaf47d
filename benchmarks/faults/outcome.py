"""The outcome of one case of the table of faults, and the parts of the promise that were not kept."""

from __future__ import annotations

import collections
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.faults.case import EPOCHS, FaultCase, bare
from benchmarks.judge.judge import Verdict
from tfhet.record import RunSummary

_STOPPED = {128 + number for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
"""Codes of jobs that were told to stop, and saved what they had."""


@dataclass(frozen=True)
class FaultOutcome:
    """One row of the table, as it came out."""

    case: FaultCase
    summary: RunSummary
    ended: bool
    """Whether the job ended by itself."""
    exit_s: float | None
    """To the exit of the last launcher that could still exit, from the moment that the kind of case says."""
    happened: int
    """How often harm was done."""
    left: tuple[str, ...] = ()
    """Descriptions of what the job left behind: processes, sockets, files."""
    odd: tuple[str, ...] = ()
    """Descriptions of events beside the job that should not have happened."""
    struck: frozenset[str] = frozenset()
    """Names of the hosts with launchers that a fault killed, froze or cut off for good."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """`data-1` to the name of that host."""
    resumed: RunSummary | None = None
    """The run after the stop."""
    verdict: Verdict | None = None
    """The judge's, of a job that went on or was taken up."""
    checkpoints: int | None = None
    """How many files there were in the folder for checkpoints afterwards."""

    @property
    def codes(self) -> dict[str, int | None]:
        """Exit codes of the launchers that lived, by label."""
        by_fault = {-signal.SIGKILL, None} if self.case.kind != "goes on" else None
        return {
            label: code
            for label, code in self.summary.exit_codes.items()
            if label.split("/")[0] not in self.struck or (by_fault is not None and code not in by_fault)
        }

    @property
    def _delivered(self) -> Sequence[Mapping[str, Any]]:
        """The epochs of a job that came to its end, by its audit: those of the last run that read them."""
        if self.resumed is None:
            return self.summary.epochs if self.case.kind == "goes on" else ()
        again = {epoch["epoch"] for epoch in self.resumed.epochs}
        return [*(epoch for epoch in self.summary.epochs if epoch["epoch"] not in again), *self.resumed.epochs]

    @property
    def missing(self) -> int:
        return self.verdict.missing if self.verdict else 0

    @property
    def repeated(self) -> int:
        return self.verdict.repeated if self.verdict else 0

    @property
    def bad(self) -> int:
        return _sum(self._delivered, "bad")

    @property
    def breaches(self) -> list[str]:
        """Descriptions of the parts of the promise that were not kept."""
        found = [*(f"left behind: {thing}" for thing in self.left), *self.odd]
        if not self.ended:
            found.append("the job did not end by itself")
        if self.happened < sum(not fault.startswith("late-join") for fault in self.case.faults):
            found.append("a fault never happened")
        found += self._wrong_codes()
        limit_s = self.case.limit_s
        if limit_s is not None and (self.exit_s is None or self.exit_s > limit_s):
            when = "is not known" if self.exit_s is None else f"came after {self.exit_s:.1f} s"
            found.append(f"the last exit {when}, the limit is {limit_s:g} s")
        found += self._wrong_cause() if limit_s is not None else self._wrong_data() + self._wrong_loss()
        if self.case.kind == "stop" and not self.checkpoints:
            found.append("no checkpoint was written")
        if self.resumed is not None:
            found += self._wrong_start() + self._wrong_data()
        return found

    def _wrong_codes(self) -> list[str]:
        codes, wanted = set(self.codes.values()), self.case.code
        said = f"exit codes {_counted(list(self.codes.values()))}: {self.summary.cause}"
        if not codes or (len(codes) > 1 and self.case.linked):
            return [f"the launchers do not agree: {said}"]
        if (wanted is None and codes & {0, *_STOPPED}) or (wanted is not None and codes != {wanted}):
            return [said]
        return []

    def _wrong_cause(self) -> list[str]:
        cause = self.summary.cause or ""
        if self.case.before == "truncated" and self.summary.steps:
            return [f"{self.summary.steps} steps were taken before: {cause}"]
        words = [self.hosts[word] if self.case.is_place(word) else word for word in self.case.named]
        if "data-" in words:  # any data host will do
            words.remove("data-")
            if not any(name in cause for place, name in self.hosts.items() if place.startswith("data-")):
                return [f"the cause names no data host: {cause}"]
        return [f"the cause does not name {word!r}: {cause}" for word in words if word not in cause]

    def _wrong_data(self) -> list[str]:
        """Breaches of what is promised of the examples of a job that comes to its end: the judge decides, and the audit
        must not say otherwise."""
        assert self.verdict is not None
        found, epochs = [f"by the judge: {words}" for words in self.verdict.words], self._delivered
        if len(epochs) != EPOCHS:
            found.append(f"{len(epochs)} of {EPOCHS} epochs in the record")
        for name, counted in (("missing", self.missing), ("repeated", self.repeated)):
            if (said := _sum(epochs, name)) != counted:
                found.append(f"the audit counts {said} examples {name}, the judge {counted}")
        if self.bad != self.case.bad * EPOCHS:
            found.append(f"{self.bad} examples were skipped, {self.case.bad * EPOCHS} expected")
        for epoch in epochs:
            parts = [int(epoch.get(name) or 0) for name in ("before", "once", "repeated", "missing", "bad")]
            if sum(parts) != int(epoch["expected"]):
                found.append(f"epoch {epoch['epoch']}: {sum(parts)} of {epoch['expected']} examples are accounted for")
        return found

    def _wrong_start(self) -> list[str]:
        """Breaches of what is promised of the run after a stop."""
        assert self.resumed is not None
        if set(self.resumed.exit_codes.values()) != {0}:
            return [f"the next run ended with {_counted(list(self.resumed.exit_codes.values()))}: {self.resumed.cause}"]
        if not any(epoch.get("before") for epoch in self.resumed.epochs):
            return ["the next run began its epoch anew"]
        return []

    def _wrong_loss(self) -> list[str]:
        """Breaches of what is promised of the data hosts that a job lost."""
        lost = set(getattr(self.summary, "lost_hosts", ()) or ())
        if lost != (wanted := {self.hosts[place] for place in self.case.lost}):
            return [f"lost hosts: {', '.join(sorted(lost)) or 'none'}, not {', '.join(sorted(wanted)) or 'none'}"]
        return []

    def row(self) -> dict[str, Any]:
        """The row of the printed table."""
        counts = {"missing": self.missing, "repeated": self.repeated, "bad": self.bad}
        return {
            "case": self.case.name,
            "kind": self.case.kind,
            "ended": "yes" if self.ended else "no",
            "exit s": None if self.exit_s is None or self.case.limit_s is None else round(self.exit_s, 1),
            "limit s": self.case.limit_s,
            "codes": _counted(list(self.summary.exit_codes.values())),
            **{name: count if self._delivered else None for name, count in counts.items()},
            "restarts": self.summary.restarts,
            "left": len(self.left),
            "kept": "no" if self.breaches else "yes",
            "cause": bare(self.summary.cause or "")[:100],
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "case": self.case.name,
            "kind": self.case.kind,
            "limit_s": self.case.limit_s,
            "ended": self.ended,
            "exit_s": self.exit_s,
            "happened": self.happened,
            "exit_codes": dict(self.summary.exit_codes),
            "cause": bare(self.summary.cause or "") or None,
            "duration_s": self.summary.duration_s,
            "epochs": [dict(epoch) for epoch in self.summary.epochs],
            "epochs_of_the_next_run": None if self.resumed is None else [dict(e) for e in self.resumed.epochs],
            "judged": None if self.verdict is None else list(self.verdict.words),
            "missing": self.missing,
            "repeated": self.repeated,
            "bad": self.bad,
            "restarts": self.summary.restarts,
            "lost_hosts": sorted(getattr(self.summary, "lost_hosts", ()) or ()),
            "checkpoints": self.checkpoints,
            "left": list(self.left),
            "breaches": self.breaches,
        }


def _sum(epochs: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(int(epoch.get(name) or 0) for epoch in epochs)


def _counted(codes: Sequence[int | None]) -> str:
    """`0 x2, -9`."""
    counts = collections.Counter(codes).most_common()
    return ", ".join(f"{code} x{count}" if count > 1 else f"{code}" for code, count in counts) or "none"
