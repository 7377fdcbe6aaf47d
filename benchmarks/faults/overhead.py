"""`benchmarks.faults --overhead`: what supervision and leases cost a job that is left alone.

CPU seconds of the launchers, which hold the links and watch the processes, as a share of all CPU seconds of the job;
over its whole life, and from the first steps on, without what all processes load before.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cluster_runs.observed_job import new_place
from benchmarks.faults import endurance
from benchmarks.faults.cpu_account import CpuAccount, CpuSeconds
from benchmarks.faults.long_run import CHAIN, Load, LongRun, measured, watched
from tfhet.bench.harness import report
from tfhet.events import Observer
from tfhet.record import Figure, Record

OVERHEAD = "faults.supervision_overhead_pct"


@dataclass(frozen=True)
class Counted:
    """The CPU seconds of one run."""

    run: LongRun
    whole: CpuSeconds
    """From the start of the launchers to their end."""
    start: CpuSeconds
    """The part of it until the first metric line."""

    @property
    def training(self) -> CpuSeconds:
        return self.whole - self.start

    def to_json(self) -> dict[str, Any]:
        parts = {"whole": self.whole.to_json(), "training": self.training.to_json()}
        return {**parts, "wall_s": self.run.wall_s, "examples_per_s": self.run.examples_per_s}


def run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    """`options.repeats` runs of `options.minutes` each, the workers busy all the time."""
    run_s = 60.0 * options.minutes
    found: list[Counted] = []
    with new_place("overhead") as place:
        rate = endurance.calibrated(options.launcher, place, min(15.0, run_s), observer)
        load = Load.lasting(run_s, rate.examples_per_s, 0.0)
        for index in range(options.repeats):
            counted = count(load, options.launcher, place / str(index), 60.0 + 5 * run_s)
            shutil.rmtree(place / str(index), ignore_errors=True)
            found.append(counted)
            said = [f"launchers {counted.whole.launchers_pct:.2f} % of the CPU"]
            report(observer, "overhead", index + 1, options.repeats, said, counted.run.wall_s)
    details = {
        "chain": CHAIN,
        "rows": [row(index, counted) for index, counted in enumerate(found)],
        "runs_measured": [counted.to_json() for counted in found],
    }
    return Record.of("faults.overhead", figures_of(found), details=details, command=command)


def count(load: Load, launcher: Path, place: Path, limit_s: float) -> Counted:
    """One run, counted. Raises JobFailed for one that does not come to a good end."""
    job = watched(load, launcher, place, limit_s=limit_s)
    begun: list[CpuSeconds] = []
    with CpuAccount(job.launchers) as account:
        job.on_first_step = lambda: begun.append(account.total())
        summary = job.run()
    return Counted(measured(job, load, summary), account.total(), begun[0] if begun else CpuSeconds())


def figures_of(found: Sequence[Counted]) -> Mapping[str, Figure]:
    """The flat table."""
    against = "all CPU seconds of the job"
    whole, training = [[part.launchers_pct for part in parts] for parts in zip(*map(_parts, found), strict=True)]
    return {
        OVERHEAD: Figure.of(whole, unit="%", against=against),
        f"{OVERHEAD}.training": Figure.of(training, unit="%", against=f"{against}, from the first steps on"),
    }


def _parts(counted: Counted) -> tuple[CpuSeconds, CpuSeconds]:
    return counted.whole, counted.training


def row(index: int, counted: Counted) -> dict[str, Any]:
    """A line of the printed table."""
    return {
        "run": index + 1,
        "wall s": round(counted.run.wall_s, 1),
        "launchers CPU s": round(counted.whole.launchers, 2),
        "all others CPU s": round(counted.whole.others, 1),
        "share %": counted.whole.launchers_pct,
        "while training %": counted.training.launchers_pct,
    }
