"""`benchmarks.cluster`: the same training without data hosts, with them, and from memory, in turns, and its price.

The accelerator is emulated. Each host has its instance type's vCPUs, scaled down until all of them fit on this machine;
so the hosts are to each other what they are at AWS. Runs that have ended are kept, for `--resume`.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks import chosen
from benchmarks.charts.plot import drawn
from benchmarks.cluster.case import CASES, ClusterCase, Variant
from benchmarks.cluster.chart import draw
from benchmarks.cluster.run import measured
from benchmarks.cluster.table import figures_of, price_of, rows
from benchmarks.cluster.unfinished import Unfinished
from benchmarks.cluster_runs import job_data
from benchmarks.cluster_runs.idle_loops import idle_loops
from benchmarks.cluster_runs.load import Course
from benchmarks.cluster_runs.observed_job import new_place
from benchmarks.cluster_runs.point import Point
from benchmarks.cluster_runs.stopped import Stopped
from tfhet.bench.harness import in_rounds, report
from tfhet.bench.suite import Suite
from tfhet.container import kernel
from tfhet.errors import JobFailed, UsageError
from tfhet.events import Observer
from tfhet.record import Record, machine, median, versions
from tfhet.report import numbers, table, text

REPEATS = 5
SECONDS = 8.0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=REPEATS, warmup=0)
    parser.add_argument(
        "--case", default="aws-post", metavar="NAME", help=f"{' or '.join(CASES)} (default %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="N", help="measured in a run, about (default %(default)s)"
    )
    parser.add_argument(
        "--step_ms", type=float, metavar="X", help="of the accelerator (default: its share of the step without it)"
    )
    parser.add_argument("--resume", action="store_true", help="go on where a run with the same --json was interrupted")
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs, and say where")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    (case, *more) = chosen("--case", options.case, CASES)
    if more or not options.seconds > 0 or not (options.step_ms is None or options.step_ms > 0):
        raise UsageError("--case: give one; --seconds, --step_ms: give more than 0")
    unfinished = Unfinished.at(options.json, _settings(case, options), resume=options.resume)
    kernel.require("namespace")
    with new_place("cluster", keep=options.keep) as place, idle_loops():
        job_data.write_apart(place / "data", case.chain, case.batch_size, case.batches())
        bench = Bench(case, place, options, observer, unfinished)
        try:
            step_s = bench.prepare()
            points = bench.run(step_s)
        except JobFailed as failure:
            if unfinished.path is None or not unfinished.points:
                raise
            kept = f"{len(unfinished.points)} runs are kept in {unfinished.path}: --resume goes on behind them"
            raise type(failure)(f"{failure}; {kept}", log_tail=failure.log_tail) from failure
    details = {
        "case": {name: value for name, value in vars(case).items() if name != "variants"},
        "variants": {variant.key: vars(variant) for variant in case.variants},
        "hosts": {
            "dnn": {"instance_type": case.dnn_type, "cpus": case.cpus(case.dnn_type)},
            "data": {"instance_type": case.data_type, "cpus": case.cpus(case.data_type)},
        },
        "prices": {name: vars(found) for name in case.types if (found := price_of(name))},
        "accelerator_ms": 1e3 * step_s,
        "accelerator": _why(case, unfinished, options),
        "seconds": options.seconds,
        "rows": rows(case, points),
        "points": {key: [point.to_json() for point in some] for key, some in points.items()},
        "failed": unfinished.failed,
        "resumed": options.resume,
        "runs": str(place) if options.keep else None,
    }
    record = Record.of(f"cluster.{case.name}", figures_of(case, points), details=details, command=command)
    unfinished.remove()
    return record


def _settings(case: ClusterCase, options: argparse.Namespace) -> dict[str, object]:
    """Settings that all runs of a record have to share, by name."""
    here, packages = machine(), versions()
    return {
        "--case": case.name,
        "--seconds": options.seconds,
        "--step_ms": options.step_ms,
        "--warmup": options.warmup,
        "the machine": f"{here.get('cpu')}, {here.get('cores_usable')} cores",
        "the versions": ", ".join(f"{name} {version}" for name, version in sorted(packages.items())),
    }


def _why(case: ClusterCase, unfinished: Unfinished, options: argparse.Namespace) -> str:
    """How the accelerator's step was chosen."""
    if options.step_ms is not None:
        return "as --step_ms says"
    first_ms = 1e3 * (unfinished.first_s or 0.0)
    return (
        f"{case.busy:g} of the step of {case.variants[0].words}, {first_ms:.1f} ms with an accelerator that takes no"
        f" time ({case.why_busy})"
    )


class Bench:
    """The runs of one case."""

    def __init__(
        self,
        case: ClusterCase,
        place: Path,
        options: argparse.Namespace,
        observer: Observer,
        unfinished: Unfinished,
    ):
        self._case, self._place, self._options, self._observer = case, place, options, observer
        self._unfinished = unfinished

    def prepare(self) -> float:
        """Seconds of the accelerator's step. Measures the first variant without it, where that is not known yet."""
        unfinished, first = self._unfinished, self._case.variants[0]
        if unfinished.first_s is None:
            point = self._measured(first, 0.0, self._case.course(first, None, 0.0, self._options.seconds), "first")
            unfinished.first_s = 1e-3 * median(point.windows_ms)
            unfinished.keep()
            report(self._observer, f"{first.words}, an accelerator that takes no time", 1, 1, [_said(point)])
        if self._options.step_ms is not None:
            return 1e-3 * float(self._options.step_ms)
        return self._case.busy * unfinished.first_s

    def run(self, step_s: float) -> dict[str, list[Point]]:
        """The runs of each variant, by its key. What has ended already is not run again. Raises JobFailed."""
        found = in_rounds(
            {one.words: partial(self._once, one, step_s) for one in self._case.variants},
            lambda _, point: _said(point),
            warmup=self._options.warmup,
            repeats=self._options.repeats,
            observer=self._observer,
        )
        return {one.key: found[one.words] for one in self._case.variants}

    def _once(self, variant: Variant, step_s: float, index: int) -> Point:
        """The run of one round. Raises JobFailed."""
        key = f"{variant.key}-{index}"
        if key not in self._unfinished.points:
            course = self._case.course(variant, self._unfinished.first_s, step_s, self._options.seconds)
            self._unfinished.points[key] = self._measured(variant, step_s, course, key)
            self._unfinished.keep()
        return self._unfinished.points[key]

    def _measured(self, variant: Variant, step_s: float, course: Course, name: str) -> Point:
        """One run, or a second one where the first fails, which the record tells. Raises JobFailed."""
        what = (self._case, variant, step_s, course, self._place / "data")
        folders = [self._place / name, self._place / f"{name}-again"]
        try:
            return measured(*what, folders[0])
        except Stopped:
            raise
        except JobFailed as failure:
            self._unfinished.failed.append(f"{name}: {failure}")
            return measured(*what, folders[1])
        finally:
            if not self._options.keep:
                for folder in folders:
                    shutil.rmtree(folder, ignore_errors=True)


def _said(point: Point) -> str:
    return f"step {numbers.number(1e3 * point.step_s)} ms, waited for data {point.wait_pct:.0f} % of it"


def breaches(record: Record) -> list[str]:
    """The figures that do not lie where the case wants them, in words."""
    found = []
    case = CASES[record.name.partition(".")[2]]
    for name, (low, high) in case.kept.items():
        figure = record.figures[f"cluster.{case.name}.{name}"]
        if not low <= figure.value <= high:
            found.append(f"{name} is {numbers.number(figure.value)}, not between {low:g} and {high:g}")
    return found


def _notes(record: Record) -> list[str]:
    details = record.details
    lines = text(table(details["rows"]), encoding=None).splitlines()
    scale = 1.0 / float(details["case"]["cpus_per_vcpu"])
    lines.append(
        f"steps: of {details['case']['batch_size']} examples, on hosts with 1/{scale:.0f} of their vCPUs; money: whole"
        f" instances, which are {scale:.0f} times as fast"
    )
    lines.append(f"the accelerator's step: {numbers.number(details['accelerator_ms'])} ms: {details['accelerator']}")
    if details["runs"]:
        lines.append(f"runs: {details['runs']}")
    lines += [f"a run was made again: {why}" for why in details["failed"]]
    return [*lines, *(f"not kept: {breach}" for breach in breaches(record))]


SUITE = drawn(
    Suite(
        name="cluster",
        does="training without data hosts, with them, and from memory, on scaled instances, and its price (root)",
        options=_options,
        run=_run,
        notes=_notes,
        is_kept=lambda record: not breaches(record),
    ),
    draw,
)
