"""`benchmarks.cluster`: the same training without and with data hosts, on scaled instances, in turns."""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import chosen
from benchmarks.cluster.case import ClusterCase, Variant
from benchmarks.cluster.cases import CASES
from benchmarks.cluster.figures import Results, figures_of
from benchmarks.cluster_runs import batch_cpu, job_data
from benchmarks.cluster_runs.idle_loops import idle_loops
from benchmarks.cluster_runs.limited_child import ask_limited
from benchmarks.cluster_runs.measured_job import JobRun, MeasuredJob, Stopped
from benchmarks.cluster_runs.run_folder import run_folder
from benchmarks.job_scripts.inputs import Load
from tfhet.bench import Suite, harness
from tfhet.clock import SYSTEM
from tfhet.container import Limits, kernel
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.events import Event, Observer
from tfhet.record import Figure, Record, median
from tfhet.report import numbers

REPEATS, SECONDS = 5, 8.0
BATCH_CPU_LIMIT_S = 300.0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=REPEATS, warmup=0)
    parser.add_argument("--case", default=",".join(CASES), metavar="NAMES", help="default %(default)s")
    parser.add_argument("--variants", default="", metavar="NAMES", help="jobs of the cases (default: all)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="N", help="measured in a run, about (default %(default)s)"
    )
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs, and print where they are")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    cases = chosen("--case", options.case, CASES)
    if not options.seconds > 0:
        raise UsageError(f"--seconds {options.seconds:g}: give more than 0")
    if options.variants:
        cases = [case.only(options.variants.split(",")) for case in cases]
    figures: dict[str, Figure] = {}
    measured: dict[str, Any] = {}
    missing: dict[str, str] = {}
    failed: dict[str, str] = {}
    with run_folder("cluster", keep=options.keep) as place, idle_loops():
        for case in cases:
            try:
                require(case)
                results = CaseRuns(case, place / case.name, options, observer).run()
            except Stopped:
                raise
            except TfhetError as error:
                (missing if isinstance(error, UsageError) else failed)[case.name] = str(error)
                observer(Event("case.missing", SYSTEM.wall(), {"case": case.name, "reason": str(error)}))
            else:
                figures |= figures_of(results)
                measured[case.name] = _details(results)
    if not measured:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in {**missing, **failed}.items())
        raise JobFailed(reasons) if failed else UsageError(reasons)
    details = {
        "seconds": options.seconds,
        "cases": measured,
        "missing": missing,
        "failed": failed,
        "runs": str(place) if options.keep else None,
    }
    name = f"cluster.{cases[0].name}" if len(cases) == 1 else "cluster"
    return Record.of(name, figures, details=details, command=command)


def require(case: ClusterCase) -> None:
    """Raises UsageError if the kernel or the Python environment lacks something that the jobs of a case need."""
    if lacking := [name for name in case.packages if importlib.util.find_spec(name) is None]:
        raise UsageError(
            f"{sys.executable} has no {', '.join(lacking)}: run the suite in an environment that has it (for Ray: "
            "tests/environments/ray.lock)"
        )
    kernel.require("namespace")


class CaseRuns:
    """The runs of one case in a new folder."""

    def __init__(self, case: ClusterCase, place: Path, options: argparse.Namespace, observer: Observer):
        self._case, self._place, self._options, self._observer = case, place, options, observer
        self._channel = place / "data"

    def run(self) -> Results:
        """Measures all variants and inputs in turns. Raises TfhetError."""
        case = self._case
        self._place.mkdir()
        if case.chain:
            job_data.write_channel(self._channel, case.chain, case.batch_size, case.batches())
        known_s = {name: self._batch_cpu_s(name, 0) for name in case.inputs}
        step_s = 1e-3 * case.accelerator_ms
        if case.busy is not None:
            first = self._job(case.variants[0], 0.0, known_s, 0, "first")
            harness.report(self._observer, "first, no accelerator", 1, 1, [_described(first)])
            step_s = 1e-3 * case.busy * first.step_ms
        alone = {name: partial(self._batch_cpu_s, name) for name in case.inputs}
        jobs = {each.key: partial(self._job, each, step_s, known_s) for each in case.variants}
        found: Mapping[str, Sequence[Any]] = harness.in_rounds(
            {**alone, **jobs},
            lambda name, result: _described(result),
            warmup=self._options.warmup,
            repeats=self._options.repeats,
            observer=self._observer,
        )
        return Results(case, step_s, {name: found[name] for name in alone}, {key: found[key] for key in jobs})

    def _batch_cpu_s(self, name: str, index: int) -> float:
        """CPU seconds of a batch of an input outside any job, without a quota."""
        case = self._case
        load = Load(name, str(self._channel), case.chain, case.batch_size)
        return median(ask_limited(batch_cpu.MODULE, {"load": vars(load)}, BATCH_CPU_LIMIT_S, Limits())["whole_s"])

    def _job(self, variant: Variant, step_s: float, known_s: Mapping[str, float], index: int, name: str = "") -> JobRun:
        case, folder = self._case, self._place / (name or f"{variant.key}-{index}")
        ideal_s = case.ideal_s(variant.data_hosts, known_s[variant.input], step_s)
        course = case.course(variant, ideal_s, self._options.seconds)
        cluster = case.cluster(variant, self._channel)
        job = MeasuredJob(cluster, case.arguments(variant, step_s, course.steps), folder, course)
        try:
            return job.measured()
        finally:
            if not self._options.keep:
                shutil.rmtree(folder, ignore_errors=True)


def _described(result: JobRun | float) -> str:
    if isinstance(result, float):
        return f"{numbers.number(1e3 * result)} ms of CPU a batch"
    return f"step {numbers.number(result.step_ms)} ms, {result.wait_pct:.0f} % of it waiting for data"


def _details(results: Results) -> dict[str, Any]:
    case = results.case
    return {
        "batch_size": case.batch_size,
        "hosts": {name: case.host_cpus(name) for name in (case.dnn_type, case.data_type)},
        "cpus_per_vcpu": case.cpus_per_vcpu,
        "prices": {name: vars(price) for name, price in case.prices().items()} if case.savings else {},
        "accelerator_ms": 1e3 * results.step_s,
        "batch_cpu_s": results.batch_cpu_s,
        "variants": {each.key: {"words": each.words, "data_hosts": each.data_hosts} for each in case.variants},
        "runs": {key: [vars(run) for run in runs] for key, runs in results.runs.items()},
    }


def breaches(record: Record) -> list[str]:
    """Returns a line for each figure that is not within the bounds of its case."""
    found = []
    for name in record.details["cases"]:
        for figure, (low, high) in CASES[name].expected.items():
            measured = record.figures.get(f"cluster.{name}.{figure}")
            if measured is not None and not low <= measured.value <= high:
                value = numbers.number(measured.value)
                found.append(f"{name}: {figure} is {value}, expected between {low:g} and {high:g}")
    return found


def _notes(record: Record) -> list[str]:
    lines = []
    for name, case in record.details["cases"].items():
        step = numbers.number(case["accelerator_ms"])
        lines.append(f"{name}: {1 / case['cpus_per_vcpu']:.0f} vCPUs are one CPU here; the accelerator needs {step} ms")
    return [*lines, f"runs: {record.details['runs']}"] if record.details["runs"] else lines


SUITE = Suite(
    name="cluster",
    does="training without and with data hosts on scaled instances: step, ideal step, and price (root)",
    options=_options,
    run=_run,
    notes=_notes,
    breaches=breaches,
)
