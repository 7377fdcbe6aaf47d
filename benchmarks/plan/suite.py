"""`benchmarks.plan`: the step that the ceiling model predicts, against the step of a simulated cluster; case by case.

First the model's inputs are measured, apart from any job, and what jobs of some loads take over that in a few runs of
their own. Then they are frozen, and cases drawn by seed, of other loads, too. What the batches of a case cost apart is
measured once more right before its run, as a user profiles before planning. Each is run once, and given more of each
of its resources in turn while it runs: that of which more shortens the step most is the one that binds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.charts.plot import drawn
from benchmarks.charts.scatter import plot_points
from benchmarks.cluster_runs import job_data
from benchmarks.cluster_runs.cold_loads import Calm
from benchmarks.cluster_runs.idle_loops import idle_loops
from benchmarks.cluster_runs.observed_job import new_place
from benchmarks.cluster_runs.stopped import Stopped
from benchmarks.plan.case import LOADS, Frozen, PlanLoad
from benchmarks.plan.draw import draw
from benchmarks.plan.freeze import freeze
from benchmarks.plan.gauge import ChildGauge
from benchmarks.plan.measured import measured
from benchmarks.plan.outcome import PlanOutcome, figures_of
from benchmarks.plan.phase import AGAIN, DRAWN
from tfhet.bench.harness import report
from tfhet.bench.suite import Suite
from tfhet.container import kernel
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record
from tfhet.report import table
from tfhet.report.tables import text

MOST = {
    f"{prefix}.{name}": most
    for prefix in ("plan", "plan.cpu_bound")
    for name, most in (("error_median_pct", 5.0), ("error_p95_pct", 15.0))
}
LEAST = {"plan.binding_right_pct": 90.0, "plan.cpu_bound.interval_holds_pct": 85.0}
BATCHES = 600
"""In a channel."""
GO_ON = "with --resume and the same --json FILE the suite goes on"


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=1, warmup=0)
    parser.add_argument("--cases", type=int, default=40, metavar="N", help="how many (default %(default)s)")
    parser.add_argument(
        "--seed",
        type=int,
        default=1126,
        metavar="N",
        help="that they are drawn by (default %(default)s; 0 and 24 were known when the suite was last changed)",
    )
    parser.add_argument(
        "--seconds", type=float, default=5.5, metavar="N", help="of a phase of a run, about (default %(default)s)"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on from what the file of --json holds: its model and its cases"
    )


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if options.cases < 1 or not options.seconds > 0:
        raise UsageError("--cases and --seconds: give more than 0")
    frozen, outcomes, failed = _begun(options)
    calm = Calm()
    kernel.require("namespace")
    kernel.require("limit")

    def record() -> Record:
        details = {
            "seed": options.seed,
            "seconds": options.seconds,
            "frozen": frozen.to_json() if frozen else None,
            "cases": [one.to_json(frozen) for one in outcomes] if frozen else [],
            "rows": [one.row(frozen) for one in outcomes] if frozen else [],
            "failed": failed,
            "waited_s": calm.waited_s,
        }
        return Record.of("plan", figures_of(outcomes, frozen) if frozen else {}, details=details, command=command)

    with new_place("plan") as place, idle_loops():
        alone, written = ChildGauge(), _written(place)
        if frozen is None:
            frozen = freeze(alone, calm, written, place, observer)
            _keep(record(), options.json)
        done = {one.case.number for one in outcomes}
        for number in range(options.cases):
            if number in done:
                continue
            case = draw(frozen, options.seed, number)
            try:
                outcomes.append(measured(case, alone, calm, frozen, written, place, options.seconds))
            except Stopped as stopped:
                raise Stopped(f"{stopped}; {GO_ON}") from None
            except JobFailed as failure:
                failed.append(f"case {number}: {failure}")
            except TfhetError as failure:  # the gauge's: no other case can be measured with it
                raise TfhetError(f"{failure}; {GO_ON}") from failure
            else:
                _tell(observer, outcomes[-1], frozen, options.cases)
            _keep(record(), options.json)
    return record()


def _begun(options: argparse.Namespace) -> tuple[Frozen | None, list[PlanOutcome], list[str]]:
    """The model, the outcomes and the failures of an earlier run, with `--resume`. Raises UsageError where they do not
    fit."""
    if not options.resume:
        return None, [], []
    if options.json is None:
        raise UsageError("--resume goes on from the file of --json: name it")
    if not options.json.is_file():
        return None, [], []
    details = Record.read(options.json).details
    if details.get("seed") != options.seed or details.get("seconds") != options.seconds:
        raise UsageError(f"--resume: {options.json} is not of this seed and these seconds: give those, or another file")
    if not details.get("frozen"):
        return None, [], []
    try:
        frozen = Frozen.from_json(details["frozen"])
        # Runs of an earlier form have no costs of their own.
        _, cases = ([PlanOutcome.from_json(one) for one in some] for some in (frozen.runs, details["cases"]))
    except (KeyError, TypeError):
        raise UsageError(f"--resume: {options.json} is of another form of this suite: give another file") from None
    return frozen, cases, list(details["failed"])


def _keep(record: Record, path: Path | None) -> None:
    if path is not None:
        record.write(path)


def _written(place: Path) -> Mapping[PlanLoad, Path]:
    found = {load: place / f"{load.key}-data" for load in LOADS}
    for load, channel in found.items():
        job_data.write_apart(channel, load.chain, load.batch_size, BATCHES)
    return found


def _tell(observer: Observer, outcome: PlanOutcome, frozen: Frozen, cases: int) -> None:
    right = "" if outcome.is_right(frozen) else f", but it was {outcome.bound.value}"
    found = outcome.prediction(frozen)
    said = (
        f"{1e3 * found.step_s.value:.0f} ms predicted, {outcome.ran.drawn_ms:.0f} ms measured "
        f"({outcome.distance(frozen).error_pct:+.1f} %): {found.binding.value}{right}"
    )
    report(observer, outcome.case.load.key, outcome.case.number + 1, cases, [said], outcome.ran.seconds)


def _notes(record: Record) -> list[str]:
    lines = text(table(record.details["rows"]), encoding=None).splitlines() if record.details["rows"] else []
    lines += [f"failed: {why}" for why in record.details["failed"]]
    unclear = sum(not one["is_clear"] for one in record.details["cases"])
    if unclear:
        lines.append(f"{unclear} cases are unclear: the step changed by itself, or more of two resources did the same")
    return lines


def _draw(record: Record, path: Path) -> Path:
    points: dict[str, tuple[Figure, Figure]] = {}
    for one in record.details["cases"]:
        step, steps_ms = one["step_ms"], one["ran"]["steps_ms"]
        predicted = Figure(step["value"], step["low"], step["high"], "ms", 1)
        points[f"case {one['case']['number']}"] = predicted, Figure.of([steps_ms[DRAWN], steps_ms[AGAIN]], unit="ms")
    ends = sorted(predicted.value for predicted, _ in points.values())
    right = {"": ends[:1], "measured as predicted": ends[-1:]}
    line = {name: (Figure.of(at, unit="ms"),) * 2 for name, at in right.items() if at}
    across, upwards = "predicted, ms a step", "measured, ms a step"
    return plot_points({**points, **line}, path, line=list(line), across=across, upwards=upwards)


def _is_kept(record: Record) -> bool:
    figures = record.figures
    if record.details["failed"] or any(name not in figures for name in (*MOST, *LEAST)):
        return False
    return all(figures[name].value <= most for name, most in MOST.items()) and all(
        figures[name].value >= least for name, least in LEAST.items()
    )


SUITE = drawn(
    Suite(
        name="plan",
        does="the step that the plan's model predicts, against that of simulated clusters drawn by seed (root)",
        options=_options,
        run=_run,
        notes=_notes,
        is_kept=_is_kept,
    ),
    _draw,
)
