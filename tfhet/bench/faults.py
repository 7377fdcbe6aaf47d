"""`tfhet bench faults`: what a job does when something is done to it, case by case, on simulated clusters.

Of every case: whether it ended, how long after the fault the last launcher was gone, with which codes, what it named as
the cause, how many examples were not seen, and what was left behind; and whether that keeps the promise for its kind.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfhet.bench.suite import Suite
from tfhet.clock import SYSTEM
from tfhet.errors import UsageError, unknown
from tfhet.events import Event, Observer
from tfhet.record import Figure, Record, RunFolder, RunSummary

LEASE_S = 4.0
"""Of the jobs here: short, so that the table takes minutes. The promise moves with it."""
READY_S = 20.0
LIMITS_S = {"goes on": None, "failure": LEASE_S + 5.0, "stop": 30.0, "never joined": READY_S + 5.0}
"""What is promised of each kind: seconds from the fault to the last exit; None: the job ends as if nothing was."""
ARGUMENTS = (
    "--model emulated --step_ms 60 --batch_size 32 --epochs 2 --shuffle 0 --chain none --validation none"
    f" --export false --lease_s {LEASE_S:g} --ready_timeout_s {READY_S:g}"
).split()


@dataclass(frozen=True)
class FaultCase:
    """One row of the table."""

    faults: tuple[str, ...]
    kind: str
    """One of LIMITS_S."""
    cause: str = ""
    """What the cause must name."""
    cluster: str = "demo"
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        words = [*self.faults, *self.arguments]
        return " ".join(words) + ("" if self.cluster == "demo" else f" ({self.cluster})")


CASES = (
    FaultCase((), "goes on"),
    FaultCase(("kill:worker@data-1:after=1",), "goes on"),
    FaultCase(("kill:worker:after=1:every=5",), "goes on"),
    FaultCase(("kill:dispatcher:after=1",), "goes on"),
    FaultCase(("kill:dispatcher:after=0.5", "kill:worker:after=1.5"), "goes on"),
    FaultCase(("hang:worker@data-1:after=1:for=2",), "goes on"),
    FaultCase(("hang:dispatcher:after=1:for=2",), "goes on"),
    FaultCase(("hang:worker@data-1:after=1",), "goes on"),
    FaultCase(("hang:dispatcher:after=1",), "goes on"),
    FaultCase(("hang:launcher@data-1:after=1:for=2",), "goes on"),
    FaultCase(("bad-peer:control",), "goes on"),
    FaultCase(("bad-peer:control:every=1", "kill:worker:after=2"), "goes on"),
    FaultCase(("late-join:data-1:after=5",), "goes on"),
    FaultCase(("late-join:dnn-1:after=5",), "goes on"),
    FaultCase(("kill:worker@data-2:after=1",), "goes on", cluster="two-data-two-dnn"),
    FaultCase(("kill:worker@data-1:after=1", "kill:worker@data-2:after=1"), "goes on", cluster="two-data-two-dnn"),
    FaultCase(("kill:rank=0:after=1",), "failure", "rank 0"),
    FaultCase(("kill:rank=1:after=1",), "failure", "rank 1"),
    FaultCase(("kill:rank=3:after=1",), "failure", "rank 3", cluster="two-data-two-dnn"),
    FaultCase(("kill:launcher@data-1:after=1",), "failure", "algo"),
    FaultCase(("kill:launcher@dnn-1:after=1",), "failure"),
    FaultCase(("kill:launcher@dnn-2:after=1",), "failure", cluster="two-data-two-dnn"),
    FaultCase(("kill:host@data-1:after=1",), "failure", "was lost"),
    FaultCase(("kill:host@data-2:after=1",), "failure", "was lost", cluster="two-data-two-dnn"),
    FaultCase(("kill:host@dnn-1:after=1",), "failure"),
    FaultCase(("kill:host@dnn-2:after=1",), "failure", cluster="two-data-two-dnn"),
    FaultCase(("hang:host@data-1:after=1",), "failure", "silent"),
    FaultCase(("hang:launcher@data-1:after=1",), "failure", "silent"),
    FaultCase(("hang:host@dnn-1:after=1",), "failure"),
    FaultCase(("hang:host@dnn-2:after=1",), "failure", cluster="two-data-two-dnn"),
    FaultCase(("sigterm:launcher@data-1:after=1",), "stop", "SIGTERM"),
    FaultCase(("sigterm:launcher@dnn-1:after=1",), "stop", "SIGTERM"),
    FaultCase(("late-join:data-1:after=60",), "never joined", "did not join"),
    FaultCase(("late-join:data-2:after=60",), "never joined", "did not join", cluster="two-data-two-dnn"),
    FaultCase(("late-join:dnn-2:after=60",), "never joined", cluster="two-data-two-dnn"),
)


@dataclass(frozen=True)
class Outcome:
    """What was seen of one case."""

    case: FaultCase
    summary: RunSummary
    exit_s: float | None
    """From the first fault to the exit of the last launcher that could still exit; None without a fault."""
    happened: int
    """How often harm was done."""
    left: tuple[str, ...]
    """Processes that were there afterwards."""

    @property
    def missing(self) -> int:
        return sum(int(epoch["missing"]) for epoch in self.summary.epochs)

    @property
    def breaches(self) -> list[str]:
        """What of the promise was not kept."""
        found = [f"left behind: {thing}" for thing in self.left]
        if self.happened < sum(not fault.startswith("late-join") for fault in self.case.faults):
            found.append("a fault never happened")
        if not self.case.faults and self.missing:
            found.append(f"{self.missing} examples were not seen")
        limit_s = LIMITS_S[self.case.kind]
        if (self.summary.exit_code == 0) != (limit_s is None):
            found.append(f"exit code {self.summary.exit_code}: {self.summary.cause}")
        if limit_s is not None and (self.exit_s is None or self.exit_s > limit_s):
            found.append(f"the last exit came after {self.exit_s or 0.0:.1f} s, the limit is {limit_s:g} s")
        if self.case.cause and self.case.cause not in (self.summary.cause or ""):
            found.append(f"the cause does not name {self.case.cause!r}: {self.summary.cause}")
        if limit_s is None and any(int(epoch["repeated"]) for epoch in self.summary.epochs):
            found.append("examples came twice")
        if limit_s is None and len(self.summary.epochs) != 2:
            found.append(f"{len(self.summary.epochs)} of 2 epochs")
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "case": self.case.name,
            "kind": self.case.kind,
            "exit_s": self.exit_s,
            "exit_codes": dict(self.summary.exit_codes),
            "cause": self.summary.cause,
            "missing": self.missing,
            "restarts": self.summary.restarts,
            "left": list(self.left),
            "breaches": self.breaches,
        }


def run_case(case: FaultCase, launcher: Path, folder: Path) -> Outcome:
    """Runs one case in `folder`, which must be new."""
    from tfhet.simulate import Fault, load, simulate

    summary = simulate(
        load(case.cluster),
        [str(launcher), *ARGUMENTS, *case.arguments],
        folder,
        max_run_s=120.0,
        faults=[Fault.parse(text) for text in case.faults],
        on_line=lambda line: None,
    )
    times = [event["time_s"] for event in RunFolder(folder).events() if event["event"] == "fault.injected"]
    happened = len(times)
    if case.kind == "never joined":
        times = [summary.started or 0.0]
    ends = [event["time_s"] for event in RunFolder(folder).events() if event["event"] == "launchers.gone"]
    exit_s = max(ends) - min(times) if times and ends else None
    until = SYSTEM.monotonic() + 3.0  # who was killed may take a moment to be gone
    while (left := leftovers(folder)) and SYSTEM.monotonic() < until:
        SYSTEM.sleep(0.2)
    return Outcome(case, summary, exit_s, happened, left)


def leftovers(folder: Path) -> tuple[str, ...]:
    """Processes of the run in `folder` that still live: the folder is in the environment of each of them."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and str(folder.resolve()) in " ".join(
                process.environ().values()
            ):
                found.append(f"process {process.pid}: {' '.join(process.cmdline())[:80]}")
        except psutil.Error:
            continue
    return tuple(found)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--launcher", type=Path, default=Path("scripts/launcher.py"), help="default %(default)s")
    parser.add_argument("--only", default="", metavar="TEXT", help="the cases whose name contains it")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    cases = [case for case in CASES if options.only in case.name]
    if not cases:
        unknown("fault case", options.only, [case.name for case in CASES])
    if not options.launcher.is_file():
        raise UsageError(f"--launcher {options.launcher}: no such file; run it in the checkout")
    place = Path(tempfile.mkdtemp(prefix="faults-"))
    outcomes = []
    try:
        for index, case in enumerate(cases):
            outcome = run_case(case, options.launcher, place / str(index))
            outcomes.append(outcome)
            told = {"case": case.name, "round": index + 1, "rounds": len(cases), "exit_s": outcome.exit_s}
            observer(Event("case.ended", SYSTEM.wall(), {**told, "breaches": outcome.breaches}))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return Record.of(
        "faults", figures_of(outcomes), details={"cases": [o.to_json() for o in outcomes]}, command=command
    )


def figures_of(outcomes: Sequence[Outcome]) -> Mapping[str, Figure]:
    """The flat table."""
    failures = [o.exit_s for o in outcomes if o.case.kind == "failure" and o.exit_s is not None]
    return {
        "faults.cases": Figure.of([float(len(outcomes))], unit="cases"),
        "faults.broken": Figure.of([float(sum(bool(o.breaches) for o in outcomes))], unit="cases"),
        "faults.left_behind": Figure.of([float(sum(len(o.left) for o in outcomes))], unit="things"),
        **({"faults.worst_exit_s": Figure.of([max(failures)], unit="s")} if failures else {}),
    }


SUITE = Suite(
    name="faults",
    does="what a job does when something is done to it: ended, how soon, which codes and cause, what was lost",
    options=_options,
    run=_run,
)
