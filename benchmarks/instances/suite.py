"""`benchmarks.instances`: the same job with a fixed number of steps on each instance type, for jobs that are bound by
different things: which type is best depends on that.

A type is a simulated host: CPUs and memory are those of the type, scaled, its accelerator is emulated. How fast
accelerators are against each other is assumed, by their data sheets, unless it is given.
"""

from __future__ import annotations

import argparse
import functools
import shutil
from collections.abc import Sequence
from pathlib import Path

import psutil

from benchmarks import chosen
from benchmarks.charts.plot import drawn
from benchmarks.cluster_runs.awake_cpus import awake
from benchmarks.cluster_runs.observed_job import new_place
from benchmarks.instances.candidate import TYPES, Candidate, candidates, parse_speeds
from benchmarks.instances.load import LOADS, InstanceLoad
from benchmarks.instances.reason import Standing
from benchmarks.instances.run import InstanceRun, measured
from benchmarks.instances.table import best, draw, figures_of, rows
from tfhet import catalogue
from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import JOB, Suite
from tfhet.container import kernel
from tfhet.errors import UsageError
from tfhet.events import Observer
from tfhet.planes.cpus import usable
from tfhet.record import Record
from tfhet.report import numbers, table
from tfhet.report.tables import text
from tfhet.units import GIB

SCALE = 0.1
"""Share of a type's CPUs and memory that its host has: 16 vCPUs and 64 GiB fit into 2 cores and 8 GiB."""
REPEATS, RUN_LIMIT_S = 3, 120.0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=REPEATS, warmup=0)
    known = ",".join(load.key for load in LOADS)
    parser.add_argument("--types", default=",".join(TYPES), metavar="NAMES", help="default %(default)s")
    parser.add_argument("--workloads", default=known, metavar="NAMES", help="default %(default)s")
    parser.add_argument("--region", default=catalogue.REGION, metavar="NAME", help="of prices (default %(default)s)")
    parser.add_argument(
        "--speeds", default="", metavar="KIND=X", help="accelerators, times a T4's: A10G=2.4 (default: by data sheets)"
    )
    parser.add_argument("--steps", type=int, metavar="N", help="of every job (default: its own number)")
    parser.add_argument("--cpu_scale", type=float, default=SCALE, metavar="X", help="of CPUs and memory (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs, and say where")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    loads = chosen("--workloads", options.workloads, {load.key: load for load in LOADS})
    names = [name for name in (word.strip() for word in options.types.split(",")) if name]
    types = candidates(names, catalogue.default(), region=options.region, speeds=parse_speeds(options.speeds))
    if not 0 < options.cpu_scale <= 1 or (options.steps is not None and options.steps < 1):
        raise UsageError("--cpu_scale: give more than 0 and at most 1; --steps: at least 1")
    for one in types:
        check_fits(one, options.cpu_scale)
    kernel.require("namespace")
    with new_place("instances", keep=options.keep) as place, awake():
        runs = in_rounds(
            {_case(load, one): functools.partial(_once, load, one, place, options) for load in loads for one in types},
            lambda name, run: "out of memory" if run.seconds is None else numbers.duration(run.seconds),
            warmup=options.warmup,
            repeats=options.repeats,
            observer=observer,
        )
    standings = {load.key: [Standing(one, runs[_case(load, one)]) for one in types] for load in loads}
    details = {
        "cpu_scale": options.cpu_scale,
        "loads": {
            load.key: {**vars(load), "steps": options.steps or load.steps_at(options.cpu_scale)} for load in loads
        },
        "types": [{**one.row(), "key": one.key, "price_source": one.price.source} for one in types],
        "rows": [row for load in loads for row in rows(load.key, standings[load.key])],
        "best": {load.key: best(standings[load.key]) for load in loads},
        "runs_measured": {
            key: {one.candidate.name: [run.to_json() for run in one.runs] for one in some}
            for key, some in standings.items()
        },
        "runs": str(place) if options.keep else None,
    }
    return Record.of("instances", figures_of(standings), details=details, command=command)


def check_fits(candidate: Candidate, scale: float, *, cpus: int | None = None, memory_bytes: int | None = None) -> None:
    """Raises UsageError for a type that is larger than this machine, even scaled. cpus, memory_bytes: the machine's."""
    cpus = len(usable()) if cpus is None else cpus
    memory_bytes = psutil.virtual_memory().total if memory_bytes is None else memory_bytes
    instance = candidate.instance
    if instance.vcpus * scale > cpus or instance.memory_gib * scale * GIB > memory_bytes:
        raise UsageError(
            f"--types {instance.name}: {instance.vcpus} vCPUs and {instance.memory_gib:g} GiB times {scale:g} are more "
            f"than this machine has ({cpus} CPUs, {memory_bytes / GIB:.1f} GiB): give a smaller --cpu_scale"
        )


def _case(load: InstanceLoad, candidate: Candidate) -> str:
    return f"{load.key} {candidate.name}"


def _once(
    load: InstanceLoad, candidate: Candidate, place: Path, options: argparse.Namespace, index: int
) -> InstanceRun:
    """Raises JobFailed."""
    folder = place / f"{load.key}-{candidate.key}-{index}"
    run = measured(load, candidate, folder, scale=options.cpu_scale, steps=options.steps, limit_s=RUN_LIMIT_S)
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return run


def _notes(record: Record) -> list[str]:
    details = record.details
    hidden = ("key", "price_source")
    types = [{name: value for name, value in one.items() if name not in hidden} for one in details["types"]]
    lines = text(table(types), encoding=None).splitlines()
    lines += text(table(details["rows"]), encoding=None).splitlines()
    for key, one in details["best"].items():
        lines.append(f"{key}: fastest {one['fastest'] or 'none'}, cheapest {one['cheapest'] or 'none'}")
    lines.append(
        f"simulated: CPUs and memory of a type times {details['cpu_scale']:g}, and an emulated accelerator, whose speed"
        " nobody measured here"
    )
    return [*lines, *([f"runs: {details['runs']}"] if details["runs"] else [])]


SUITE = drawn(
    Suite(
        name="instances",
        does="which instance type is best for a job, by what binds it: time, cost and use of each, simulated (root)",
        measures=(*JOB, "benchmarks/instances"),
        options=_options,
        run=_run,
        notes=_notes,
    ),
    draw,
)
