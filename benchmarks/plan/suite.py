"""`benchmarks.plan`: predicted steps against the steps of simulated clusters, drawn by a seed, case by case."""

from __future__ import annotations

import argparse
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cluster_runs import batch_cpu, job_data
from benchmarks.cluster_runs.idle_loops import idle_loops
from benchmarks.cluster_runs.limited_child import ask_limited
from benchmarks.cluster_runs.measured_job import MeasuredJob, Stopped
from benchmarks.cluster_runs.run_folder import run_folder
from benchmarks.job_scripts.inputs import Load
from benchmarks.plan.case import LOADS, LoadCosts, PlanCase, PlanLoad
from benchmarks.plan.draw import draw
from benchmarks.plan.outcome import PlanOutcome, figures_of
from tfhet.bench import Suite, harness
from tfhet.container import Limits, kernel
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.events import Observer
from tfhet.record import Record
from tfhet.report import table, text

CASES, SECONDS = 18, 8.0
COSTS_CPUS, COSTS_LIMIT_S = 0.5, 300.0
"""Quota while the costs for the draw are measured, and the seconds for each measurement."""
BATCHES = 700
"""Batches in a channel: more than the longest run reads."""
MOST = {
    f"{prefix}.{name}": most
    for prefix in ("plan", "plan.cpu_bound")
    for name, most in (("error_median_pct", 5.0), ("error_p95_pct", 15.0))
}
LEAST = {"plan.binding_right_pct": 90.0, "plan.cpu_bound.interval_holds_pct": 85.0}
"""Bounds of figures, beyond which the suite fails."""


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=1, warmup=0)
    parser.add_argument("--cases", type=int, default=CASES, metavar="N", help="number of cases (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1126, metavar="N", help="of the draw (default %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="N", help="measured in a run, about (default %(default)s)"
    )


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if options.cases < 1 or not options.seconds > 0:
        raise UsageError("--cases and --seconds: give more than 0")
    kernel.require("namespace")
    kernel.require("limit")
    outcomes: list[PlanOutcome] = []
    failed: dict[str, str] = {}
    with run_folder("plan") as place, idle_loops():
        channels = {load: place / f"{load.key}-data" for load in LOADS}
        known = {}
        for index, (load, channel) in enumerate(channels.items(), 1):
            job_data.write_channel(channel, load.chain, load.batch_size, BATCHES)
            known[load] = LoadCosts.of(load, costs_of(load, channel, None, COSTS_CPUS))
            harness.report(observer, f"costs of {load.key}", index, len(channels))
        for number in range(options.cases):
            case = draw(known, options.seed, number)
            try:
                outcome = measured(case, channels[case.load], place / f"case-{number}", options.seconds)
            except Stopped:
                raise
            except TfhetError as failure:
                failed[f"case {number}"] = str(failure)
                harness.report(observer, case.load.key, number + 1, options.cases, [f"failed: {failure}"])
            else:
                outcomes.append(outcome)
                harness.report(observer, case.load.key, number + 1, options.cases, [_described(outcome)])
    if not outcomes:
        raise JobFailed("; ".join(f"{name}: {why}" for name, why in failed.items()))
    details: Mapping[str, Any] = {
        "seed": options.seed,
        "seconds": options.seconds,
        "cases": [outcome.to_json() for outcome in outcomes],
        "rows": [outcome.row() for outcome in outcomes],
        "failed": failed,
    }
    return Record.of("plan", figures_of(outcomes), details=details, command=command)


def costs_of(load: PlanLoad, channel: Path, positions: Sequence[int] | None, cpus: float) -> dict[str, Any]:
    """Measures the batches of a load outside any job: see `batch_cpu.answer`. cpus: quota meanwhile."""
    request = {"load": vars(Load("pipeline", str(channel), load.chain, load.batch_size)), "positions": positions}
    return ask_limited(batch_cpu.MODULE, request, COSTS_LIMIT_S, Limits(cpus))


def measured(case: PlanCase, channel: Path, folder: Path, seconds: float) -> PlanOutcome:
    """Measures the costs of a case as a user profiles before planning, and runs it. Raises TfhetError."""
    costs = costs_of(case.load, channel, case.positions, case.busiest_cpus)
    course = case.course(case.prediction(LoadCosts.of(case.load, costs)).step_s.value, seconds)
    job = MeasuredJob(case.cluster(str(channel)), case.arguments(course.steps), folder, course)
    try:
        return PlanOutcome(case, costs, job.measured())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _described(outcome: PlanOutcome) -> str:
    found = outcome.prediction
    actual = "" if outcome.is_right else f", but {outcome.bound.value} bound"
    steps = f"{1e3 * found.step_s.value:.0f} ms predicted, {outcome.run.step_ms:.0f} ms measured"
    return f"{steps} ({outcome.error_pct:+.1f} %): {found.binding.value}{actual}"


def _notes(record: Record) -> list[str]:
    return text(table(record.details["rows"]), encoding=None).splitlines()


def breaches(record: Record) -> list[str]:
    """Returns a line for each figure that is beyond its bound or missing."""
    bounds = [(name, 0.0, most) for name, most in MOST.items()] + [
        (name, least, math.inf) for name, least in LEAST.items()
    ]
    values = {name: figure.value for name, figure in record.figures.items()}
    return [
        f"{name} is {values.get(name)}, expected between {low:g} and {high:g}"
        for name, low, high in bounds
        if not low <= values.get(name, math.nan) <= high
    ]


SUITE = Suite(
    name="plan",
    does="the step that the plan's model predicts, against the step of simulated clusters drawn by a seed (root)",
    options=_options,
    run=_run,
    notes=_notes,
    breaches=breaches,
)
