"""`benchmarks.plan_runs`: what `tfhet plan --run` says of another cluster than the one a script ran on, against that
other cluster, simulated.

The scripts are not the built-in trainer: tfhet knows of them what `tfhet.distribute` tells. For each case the script
runs on one cluster, the plan is asked about another one, with the commands that a user types, and then the script runs
there, in the layout that the plan chose.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import child_environment, chosen
from benchmarks.cluster_runs import job_data
from benchmarks.cluster_runs.awake_cpus import awake
from benchmarks.cluster_runs.observed_job import new_place
from benchmarks.plan_runs.case import CASES, Hosts, PlanRunCase, Script
from benchmarks.plan_runs.commands import Commands, arguments_of
from benchmarks.plan_runs.outcome import PlanRunOutcome, Run, figures_of
from tfhet.bench.harness import report
from tfhet.bench.suite import Suite
from tfhet.clock import SYSTEM
from tfhet.container import kernel
from tfhet.errors import TfhetError
from tfhet.events import Observer
from tfhet.record import Record, RunFolder
from tfhet.report import table
from tfhet.report.tables import text

MOST_PCT, LEAST_HOLDS_PCT = 10.0, 80.0
"""The largest error of any case, and the smallest share of intervals that hold what was measured."""
BATCHES = 600
"""Of a script's data: more than it reads."""


@dataclass
class Bench:
    """The runs of one suite: profiles and first runs that several cases share are made once."""

    commands: Commands
    _channels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _profiles: dict[str, Path] = field(default_factory=dict)
    _runs: dict[tuple[str, float | None, Hosts], RunFolder] = field(default_factory=dict)

    def outcome(self, case: PlanRunCase) -> PlanRunOutcome:
        """Runs the case. Raises TfhetError, mostly JobFailed."""
        script, channels = case.script, self._data(case.script)
        key = script.name, case.step_ms, case.before
        if key not in self._runs:
            name = f"{case.name}-before"
            self._runs[key] = self.commands.simulate(name, script, case.step_ms, case.before, channels)
        before = self._runs[key]
        if script.name not in self._profiles:
            self._profiles[script.name] = self.commands.profile(script, channels)
        candidate = self.commands.plan(case, before, self._profiles[script.name])
        words = arguments_of(candidate)
        after = self.commands.simulate(f"{case.name}-after", script, case.step_ms, case.after, channels, *words)
        first, second = Run.of(str(case.before), before.read_summary()), Run.of(str(case.after), after.read_summary())
        return PlanRunOutcome(case, first, candidate, second)

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
    with new_place("plan-runs", keep=options.keep) as place, awake():
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
                    f"({outcome.error_pct:+.1f} %)"
                )
                report(observer, case.name, number, len(cases), [said], SYSTEM.monotonic() - began_s)
            record = _record(outcomes, failed, bench.commands.typed, command, str(place) if options.keep else None)
            if options.json:
                record.write(options.json)  # what was measured is not lost when a later case is stopped
    return record


def _record(
    outcomes: Sequence[PlanRunOutcome],
    failed: Sequence[str],
    typed: Sequence[str],
    command: Sequence[str],
    runs: str | None,
) -> Record:
    details = {
        "rows": [one.row() for one in outcomes],
        "cases": [one.to_json() for one in outcomes],
        "failed": list(failed),
        "typed": list(typed),
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
    options=_options,
    run=_run,
    notes=_notes,
    is_kept=_is_kept,
)
