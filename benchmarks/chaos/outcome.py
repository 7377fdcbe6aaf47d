"""The outcome of one job with a schedule of faults, and the promises that were not kept."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from benchmarks.chaos.expectation import FAILURE, FROZEN_S, GOES_ON, NEVER_JOINED, STOP, allowed, harmful, silences
from benchmarks.chaos.schedule import SERVERS, Aim
from benchmarks.faults.case import EPOCHS, LIMITS_S, READY_S, bare
from benchmarks.judge.judge import Verdict
from tfhet.record import RunSummary
from tfhet.simulate import Fault
from tfhet.simulate.training_job import NO_REASON

BOUNDARY_S = 2.0
"""A fault that comes so shortly before the ranks have finished may come too late to matter."""
OUT_OF_TIME = "the job ran longer than"
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
_ABORTED = 128 + signal.SIGABRT
"""The end of a rank that comes back and finds the others gone: Gloo aborts it."""
ACCOUNT = ("before", "once", "repeated", "missing", "bad", "left")
"""Fields of an epoch's audit that count examples; each example counts in one of them."""


@dataclass(frozen=True)
class Strike:
    """Harm that was done."""

    fault: Fault
    at_s: float
    """Seconds since 1970."""


def strikes(faults: Sequence[Fault], events: Sequence[Mapping[str, Any]]) -> tuple[Strike, ...]:
    """Which of `faults` struck when, by a run's events."""
    found = []
    for event in events:
        if event["event"] == "fault.injected":
            name = str(event["fault"]).removeprefix("fault ").split(": ")[0]
            found += [Strike(fault, float(event["time_s"])) for fault in faults if str(fault) == name][:1]
    return tuple(found)


@dataclass(frozen=True)
class ChaosOutcome:
    """One schedule."""

    seed: int | str
    """The seed, or the name of a schedule that is kept."""
    cluster: str
    faults: tuple[Fault, ...]
    aim: Aim
    summary: RunSummary
    strikes: tuple[Strike, ...]
    trained_s: float | None = None
    """When the first rank had finished its training, in seconds since 1970; None: none had."""
    gone_s: float | None = None
    """When the last launcher that could exit had."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """`data-1` to the name of that host."""
    left: tuple[str, ...] = ()
    """Descriptions of what the job left behind: processes, sockets, files."""
    odd: tuple[str, ...] = ()
    """Descriptions of events beside the job that should not have happened."""
    has_begun: bool = True
    """Whether the ranks' scripts were started."""
    resumed: RunSummary | None = None
    """For a job that was asked to stop: the run without faults that went on where it left off."""
    verdict: Verdict | None = None
    """The judge's, of a job that went on, or was taken up."""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """Under which it ran: `hosts`, `busy`, `plane`, `reader`, `strategy`."""

    @cached_property
    def _silent(self) -> dict[str, bool]:
        """The hosts that were out of reach, by name, and whether for ever."""
        found: dict[str, bool] = {}
        for fault in (strike.fault for strike in self.strikes if silences(strike.fault)):
            for name in (self.hosts.get(host, "") for host in self.aim.named(fault.host)):
                found[name] = found.get(name, False) or fault.for_s is None
        return found

    @property
    def codes(self) -> dict[str, int | None]:
        """Exit codes, by label, of the launchers that were neither killed nor out of reach."""
        killed = {self.hosts.get(s.fault.host) for s in self.strikes if s.fault.kind == "kill"}
        return {
            label: code
            for label, code in self.summary.exit_codes.items()
            if (host := label.split("/")[0]) not in self._silent and not (host in killed and code in _KILLED)
        }

    @cached_property
    def kind(self) -> str:
        """How it ended: one of LIMITS_S."""
        codes = {code for code in self.codes.values() if code != 0}
        if not codes:  # where every host was out of reach at some time, all of them have to have ended well
            return GOES_ON if self.codes or set(self.summary.exit_codes.values()) == {0} else FAILURE
        if codes == {128 + signal.SIGTERM}:
            return STOP
        return FAILURE if self.has_begun else NEVER_JOINED

    @cached_property
    def allowed(self) -> frozenset[str]:
        """How it might have ended."""
        last_s = float("inf") if self.trained_s is None else self.trained_s - BOUNDARY_S
        late_joins = [fault for fault in self.faults if fault.kind == "late-join"]
        every = [fault for fault in self.faults if any(strike.fault is fault for strike in self.strikes)] + late_joins

        def is_early(fault: Fault) -> bool:
            noticed_s = self.aim.lease_s if silences(fault) else 0.0
            return fault in late_joins or min(s.at_s for s in self.strikes if s.fault is fault) < last_s - noticed_s

        early = [fault for fault in every if is_early(fault)]
        kinds = allowed(early, self.aim)
        return kinds if len(early) == len(every) else kinds | allowed(every, self.aim)

    @property
    def ended(self) -> bool:
        """Whether it ended by itself."""
        return not (self.summary.cause or "").startswith(OUT_OF_TIME)

    @property
    def _begun_s(self) -> float | None:
        """From when the exit counts: the last harm done, or the start of a job that never began."""
        ended_by = [strike.at_s for strike in self.strikes if harmful(strike.fault, self.aim)]
        return self.summary.started if self.kind == NEVER_JOINED else max(ended_by, default=None)

    @property
    def exit_s(self) -> float | None:
        """To the last exit."""
        return None if self._begun_s is None or self.gone_s is None else max(0.0, self.gone_s - self._begun_s)

    @property
    def limit_s(self) -> float | None:
        """Limit of `exit_s` in seconds. A launcher that was frozen can only end when it is no longer, and then waits
        for the leader as long as any other."""
        limit_s, begun_s = LIMITS_S[self.kind], self._begun_s
        if limit_s is None or begun_s is None:
            return limit_s
        if self.kind == NEVER_JOINED:
            limit_s += self.aim.ready_timeout_s - READY_S
        elif self.kind == FAILURE and any((s.fault.kind, s.fault.process) == ("hang", "ray") for s in self.strikes):
            limit_s += FROZEN_S
        frozen = [s for s in self.strikes if s.fault.kind == "hang" and silences(s.fault)]
        failed_s = LIMITS_S[FAILURE] or 0.0
        ends_s = [s.at_s + (s.fault.for_s or 0.0) + failed_s - begun_s for s in frozen]
        if frozen and self.kind == NEVER_JOINED:  # the job of a frozen leader is there for who comes late
            ends_s += [fault.after_s + limit_s for fault in self.faults if fault.kind == "late-join"]
        return max([limit_s, *ends_s])

    @property
    def hangs(self) -> bool:
        """Whether it did not end within its promise."""
        is_late = self.limit_s is not None and self.exit_s is not None and self.exit_s > self.limit_s
        return is_late or not self.ended

    @property
    def epochs(self) -> list[Mapping[str, Any]]:
        """Those that were read to their end, by the job or the one that took it up."""
        if self.kind == GOES_ON:
            return list(self.summary.epochs)
        if self.resumed is None:
            return []
        again = {int(epoch["epoch"]) for epoch in self.resumed.epochs}
        return [*(e for e in self.summary.epochs if int(e["epoch"]) not in again), *self.resumed.epochs]

    @property
    def uncounted(self) -> int:
        """Examples of a job that went on, or was taken up, of which nothing is said."""
        if (self.kind != GOES_ON and self.resumed is None) or self.aim.strategy == "ray":
            return 0
        expected = [int(epoch.get("expected") or 0) for epoch in self.epochs]
        said = [sum(int(epoch.get(name) or 0) for name in ACCOUNT) for epoch in self.epochs]
        lacking = max(0, EPOCHS - len(expected)) * max([1, *expected])
        return lacking + sum(abs(a - b) for a, b in zip(expected, said, strict=True))

    def sum(self, name: str) -> int:
        """Sum of one of the audit's fields over all epochs."""
        return sum(int(epoch.get(name) or 0) for epoch in self.epochs)

    @property
    def may_lack(self) -> bool:
        """Whether examples may be missing, if the account says so: what a server of tf.data service held that was lost
        is not read again for a script of its own."""
        struck = [strike.fault for strike in self.strikes]
        return not self.aim.built_in and any(one.process in SERVERS or one.host in self.aim.serving for one in struck)

    @cached_property
    def breaches(self) -> list[str]:
        """Descriptions of the promises that were not kept."""
        found = [*(f"left behind: {thing}" for thing in self.left), *self.odd]
        if not self.ended:
            found.append("the job did not end by itself")
        elif self.hangs:
            found.append(f"the last exit came after {self.exit_s:.1f} s, the limit is {self.limit_s:.3g} s")
        if len(set(self.codes.values())) > 1:
            found.append(f"the launchers do not agree: {self.codes}")
        may = {*self.codes.values(), 1, _ABORTED, *([0] if self.kind == GOES_ON else [])}
        for label, code in self.summary.exit_codes.items():
            if label.split("/")[0] in self._silent and code not in {*may, *_KILLED, None}:
                found.append(f"{label}, which was out of reach, ended with {code}")
        if self.kind not in self.allowed:
            words = f"{self.kind} ({bare(str(self.summary.cause))})"
            found.append(f"the job's end: {words}; it might have been: {', '.join(sorted(self.allowed))}")
        cause = self.summary.cause or ""
        if self.kind != GOES_ON and (not cause or cause.startswith(NO_REASON)):
            found.append(f"no cause is named: {cause}")
        if self.resumed is not None and self.resumed.exit_code:
            found.append(f"the job that took it up failed: {bare(str(self.resumed.cause))}")
        if self.verdict is not None:
            if not self.may_lack or self.verdict.repeated or self.verdict.foreign:
                found += [f"by the judge: {words}" for words in self.verdict.words]
            for name, count in (("missing", self.verdict.missing), ("repeated", self.verdict.repeated)):
                if self.aim.strategy != "ray" and self.sum(name) != count:
                    found.append(f"the audit counts {self.sum(name)} examples {name}, the judge {count}")
        return found + ([f"{self.uncounted} examples uncounted"] if self.uncounted else [])

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            **self.conditions,
            "cluster": self.cluster,
            "faults": [str(fault) for fault in self.faults],
            "struck": sorted({str(strike.fault) for strike in self.strikes}),
            "kind": self.kind,
            "allowed": sorted(self.allowed),
            "exit_s": self.exit_s,
            "hangs": self.hangs,
            "duration_s": self.summary.duration_s,
            "exit_codes": dict(self.summary.exit_codes),
            "cause": bare(self.summary.cause or "") or None,
            "restarts": self.summary.restarts,
            "lost_hosts": dict(self.summary.lost_hosts),
            "epochs": [dict(epoch) for epoch in self.summary.epochs],
            "resumed": None if self.resumed is None else [dict(epoch) for epoch in self.resumed.epochs],
            "uncounted": self.uncounted,
            "missing": self.verdict.missing if self.verdict else 0,
            "repeated": self.verdict.repeated if self.verdict else 0,
            "judged": None if self.verdict is None else list(self.verdict.words),
            "left": list(self.left),
            "breaches": self.breaches,
        }
