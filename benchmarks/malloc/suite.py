"""`benchmarks.malloc`: what batches cost a process with the C library's allocator as it is, and as jobs set it."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import child_environment, chosen
from benchmarks.cluster_runs import job_data
from benchmarks.cluster_runs.observed_job import new_place
from benchmarks.malloc.maker import PILLOW
from benchmarks.plan.case import PlanLoad
from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import CHAIN, Suite
from tfhet.events import Observer
from tfhet.planes import with_malloc_tunables
from tfhet.record import Figure, Record
from tfhet.units import MB

TUNABLES = "GLIBC_TUNABLES"
LIBRARY, JOBS = "library", "jobs"
WAYS: Mapping[str, str] = {
    LIBRARY: "",
    "huge_pages": "glibc.malloc.hugetlb=1",
    JOBS: with_malloc_tunables({})[TUNABLES],
}
"""Value of `TUNABLES` that a process is started with, by name."""
AGAINST = "the C library's allocator as it is"
LOADS = tuple(
    PlanLoad(chain, batch_size)
    for chain, batch_size in (
        ("imagenet-train", 64),
        ("imagenet-train", 32),
        ("imagenet-eval", 48),
        ("aws-cifar", 4096),
        (PILLOW, 64),
    )
)
BATCHES = 64
"""In a channel; they are read again and again."""
LIMIT_S = 120.0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=6, warmup=0)
    known = ",".join(load.key for load in LOADS)
    parser.add_argument("--loads", default=known, metavar="NAMES", help="default %(default)s")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    loads = chosen("--loads", options.loads, {load.key: load for load in LOADS})
    with new_place("malloc") as place:
        channels = {load: place / load.key for load in loads}
        for load, channel in channels.items():
            if load.chain != PILLOW:
                job_data.write_apart(channel, load.chain, load.batch_size, BATCHES)
        runs = {
            f"{load.key}.{way}": functools.partial(_measured, load, channels[load], tunables)
            for load in loads
            for way, tunables in WAYS.items()
        }
        taken = in_rounds(
            runs,
            lambda name, one: f"{1e3 * one['cpu_s']:.1f} ms, {one['faults']:.0f} faults",
            warmup=options.warmup,
            repeats=options.repeats,
            observer=observer,
        )
    details = {"tunables": dict(WAYS), "runs": taken}
    return Record.of("malloc", figures_of(taken, loads), details=details, command=command)


def _measured(load: PlanLoad, channel: Path, tunables: str, index: int) -> dict[str, float]:
    """The cost of a batch in a new process."""
    env = {**child_environment(), TUNABLES: tunables}
    with AnsweringProcess.of_module("benchmarks.malloc.maker", env=env) as maker:
        asked = {"chain": load.chain, "batch_size": load.batch_size, "channel": str(channel)}
        return dict(maker.ask(asked, LIMIT_S))


def figures_of(taken: Mapping[str, Sequence[Mapping[str, float]]], loads: Sequence[PlanLoad]) -> Mapping[str, Figure]:
    """CPU, page faults and most memory, by load and way; and how many times the CPU each way takes."""
    figures: dict[str, Figure] = {}
    for load in loads:
        cpu_s = {way: [one["cpu_s"] for one in taken[f"{load.key}.{way}"]] for way in WAYS}
        for way in WAYS:
            name, runs = f"malloc.{load.key}.{way}", taken[f"{load.key}.{way}"]
            figures[f"{name}.cpu_ms"] = Figure.of([1e3 * each for each in cpu_s[way]], unit="ms")
            figures[f"{name}.faults"] = Figure.of([one["faults"] for one in runs], unit="faults")
            figures[f"{name}.peak_mb"] = Figure.of([one["peak_bytes"] / MB for one in runs], unit="MB")
            if way != LIBRARY:
                figures[f"{name}.vs_library"] = Figure.ratio(cpu_s[way], cpu_s[LIBRARY], unit="x", against=AGAINST)
    return figures


SUITE = Suite(
    name="malloc",
    does="CPU, page faults and memory of batches with the C library's allocator, and with that of jobs",
    measures=(*CHAIN, "tfhet/planes/malloc.py", "benchmarks/malloc", "benchmarks/cluster_runs"),
    options=_options,
    run=_run,
)
