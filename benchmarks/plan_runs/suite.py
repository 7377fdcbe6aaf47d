"""`benchmarks.plan_runs`: what `tfhet plan --run` says of another cluster than the one a script ran on, against that
other cluster, simulated.

The scripts are not the built-in trainer: tfhet knows of them what `tfhet.distribute` tells. For each case the script
runs on one cluster, the plan is asked about another one, with the commands that a user types, and then the script runs
there, in the layout that the plan chose. Beside each run the speed of CPUs and memory is measured: a plan cannot know
that a machine becomes slower, so a case whose runs saw different speeds is run again.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks import child_environment, chosen
from benchmarks.cluster_runs import job_data
from benchmarks.cluster_runs.cold_loads import Calm, ColdLoads, cold_loads
from benchmarks.cluster_runs.idle_loops import idle_loops
from benchmarks.cluster_runs.observed_job import new_place
from benchmarks.plan_runs.case import CASES, PlanRunCase, Script
from benchmarks.plan_runs.commands import Commands, arguments_of
from benchmarks.plan_runs.outcome import PlanRunOutcome, Run, figures_of
from benchmarks.plan_runs.speed import Speed, pass_ms
from tfhet.bench.harness import report
from tfhet.bench.suite import JOB, PLAN, Suite
from tfhet.clock import SYSTEM
from tfhet.container import kernel
from tfhet.errors import TfhetError
from tfhet.events import Observer
from tfhet.record import Record
from tfhet.report import table
from tfhet.report.tables import text

MOST_PCT, LEAST_HOLDS_PCT = 10.0, 80.0
"""The largest error of any case, and the smallest share of intervals that hold what was measured."""
STEADY_PCT, STEADY_LOADS_PCT, MOST_TRIES = 4.0, 40.0, 3
"""How much slower CPUs, and loads from memory, may be in one run of a case than in another; how often a case is tried,
where they were."""
BATCHES = 600
"""Number of batches in a script's data: more than it reads."""


@dataclass
class Bench:
    """The runs of one suite: profiles and first runs that several cases share are made once, on a steady machine."""

    commands: Commands
    pass_ms: Callable[[], float] = pass_ms
    """CPU milliseconds of work that is always the same."""
    loads: Callable[[], contextlib.AbstractContextManager[ColdLoads]] = cold_loads
    """Watches loads from memory as long as it lasts."""
    calm: Calm = field(default_factory=Calm)
    _channels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _made: dict[Hashable, tuple[Any, Speed]] = field(default_factory=dict)
    """Runs and profiles, each with the speed meanwhile."""
    tries: list[PlanRunOutcome] = field(default_factory=list)
    """All of them, those that do not count included."""

    def outcome(self, case: PlanRunCase) -> PlanRunOutcome:
        """Runs the case, and again where the machine changed its speed meanwhile: the steadiest of at most MOST_TRIES
        counts. Raises TfhetError, mostly JobFailed."""
        tries: list[PlanRunOutcome] = []
        while len(tries) < MOST_TRIES and not any(_unsteadiness(each) <= 1.0 for each in tries):
            for key in self._keys(case) if tries else ():
                del self._made[key]
            tries.append(self._try(case, f"-{len(tries) + 1}" if tries else ""))
            self.tries.append(tries[-1])
        return min(tries, key=_unsteadiness)

    def _keys(self, case: PlanRunCase) -> tuple[Hashable, Hashable]:
        """The keys of the first run and the profile of a case."""
        return (case.script.name, case.step_ms, case.before), case.script.name

    def _try(self, case: PlanRunCase, again: str) -> PlanRunOutcome:
        script, channels = case.script, self._data(case.script)
        simulate, (of_run, of_profile) = self.commands.simulate, self._keys(case)
        name = f"{case.name}-before{again}"
        before, at_first = self._paced(of_run, lambda: simulate(name, script, case.step_ms, case.before, channels))
        profile, at_profile = self._paced(of_profile, lambda: self.commands.profile(script, channels))
        candidate = self.commands.plan(case, before, profile)
        words, name = arguments_of(candidate), f"{case.name}-after{again}"
        after, at_second = self._paced(name, lambda: simulate(name, script, case.step_ms, case.after, channels, *words))
        first, second = Run.of(str(case.before), before.read_summary()), Run.of(str(case.after), after.read_summary())
        return PlanRunOutcome(case, first, candidate, second, (at_first, at_profile, at_second))

    def _paced(self, key: Hashable, make: Callable[[], Any]) -> tuple[Any, Speed]:
        if key not in self._made:
            self.calm.wait()
            before_ms = self.pass_ms()
            with self.loads() as loads:
                found = make()
            self._made[key] = found, Speed((before_ms + self.pass_ms()) / 2, loads.ns)
        return self._made[key]

    def _data(self, script: Script) -> Mapping[str, str]:
        """Directories of the channels that the script reads."""
        if script.name not in self._channels:
            directory = self.commands.place / f"data-{script.name}"
            if script.chain:
                job_data.write_apart(directory, script.chain, script.batch_size, BATCHES)
                self._channels[script.name] = {"training": str(directory)}
            else:
                words = [sys.executable, "-m", "tfhet.source.digits", str(directory)]
                subprocess.run(words, env=child_environment(), capture_output=True, check=True)
                channels = {"training": "train", "validation": "validation"}
                self._channels[script.name] = {name: str(directory / part) for name, part in channels.items()}
        return self._channels[script.name]


def _unsteadiness(outcome: PlanRunOutcome) -> float:
    """How far the machine was from being as fast beside each run; up to 1 it was steady."""
    return max(outcome.drift_pct / STEADY_PCT, outcome.load_drift_pct / STEADY_LOADS_PCT)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=1, warmup=0)
    names = ",".join(case.name for case in CASES)
    parser.add_argument("--cases", default=names, metavar="NAMES", help="default: all, which are %(default)s")
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs, and say where")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    cases = chosen("--cases", options.cases, {case.name: case for case in CASES})
    kernel.require("namespace")
    kernel.require("limit")
    outcomes: list[PlanRunOutcome] = []
    failed: list[str] = []
    with new_place("plan-runs", keep=options.keep) as place, idle_loops():
        bench = Bench(Commands(place))
        for number, case in enumerate(cases, 1):
            began_s = SYSTEM.monotonic()
            try:
                outcome = bench.outcome(case)
            except TfhetError as failure:
                failed.append("\n".join([f"{case.name}: {failure}", *getattr(failure, "log_tail", ())]))
            else:
                outcomes.append(outcome)
                said = (
                    f"{outcome.predicted_ms['value']:.0f} ms predicted, {outcome.after.step_ms:.0f} ms measured "
                    f"({outcome.distance.error_pct:+.1f} %)"
                )
                report(observer, case.name, number, len(cases), [said], SYSTEM.monotonic() - began_s)
            record = _record(outcomes, failed, bench, command, str(place) if options.keep else None)
            if options.json:
                record.write(options.json)  # what was measured is not lost when a later case is stopped
    return record


def _record(
    outcomes: Sequence[PlanRunOutcome],
    failed: Sequence[str],
    bench: Bench,
    command: Sequence[str],
    runs: str | None,
) -> Record:
    details = {
        "rows": [one.row() for one in outcomes],
        "cases": [one.to_json() for one in outcomes],
        "failed": list(failed),
        "tries": [one.to_json() for one in bench.tries],
        "typed": list(bench.commands.typed),
        "waited_s": bench.calm.waited_s,
        "runs": runs,
    }
    return Record.of("plan_runs", figures_of(outcomes), details=details, command=command)


def _notes(record: Record) -> list[str]:
    rows, runs = record.details["rows"], record.details["runs"]
    lines = text(table(rows), encoding=None).splitlines() if rows else []
    lines += [f"failed: {why}" for why in record.details["failed"]]
    return lines + ([f"runs: {runs}"] if runs else [])


def _is_kept(record: Record) -> bool:
    figures = record.figures
    if record.details["failed"] or "plan_runs.error_most_pct" not in figures:
        return False
    holds = figures["plan_runs.interval_holds_pct"].value
    return figures["plan_runs.error_most_pct"].value <= MOST_PCT and holds >= LEAST_HOLDS_PCT


SUITE = Suite(
    name="plan_runs",
    does="the step that a plan predicts from a script's run for another cluster, against that cluster simulated (root)",
    measures=(*JOB, *PLAN, "tfhet/profile", "benchmarks/plan_runs", "benchmarks/cluster_runs"),
    options=_options,
    run=_run,
    notes=_notes,
    is_kept=_is_kept,
)
