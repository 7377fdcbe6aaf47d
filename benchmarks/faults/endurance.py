"""`benchmarks.faults --endurance`: throughput while one worker after another is killed, against that without.

The workers' rate is measured first (a step that takes no time); then the emulated step asks for 70 % of it. Undisturbed
and disturbed runs take turns, and each two neighbours are a pair.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cluster_runs.observed_job import new_place
from benchmarks.faults.long_run import BATCH, CHAIN, SPLITS, WORKERS, Load, LongRun, long_run
from tfhet.bench.harness import report
from tfhet.events import Observer
from tfhet.record import Figure, Record

FAULT = "kill:worker:after=2:every=5"
DEMAND = 0.7
"""Share of what the workers can deliver that the emulated accelerator asks for."""
BOUND_PCT = 50.0
"""A calibration run that waits for data less than this is one whose workers are not what limits it."""
RATIO = "faults.kill_every_5s.throughput_ratio"


def run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    """Calibrates, then `options.repeats` pairs of runs of `options.minutes` each."""
    run_s = 60.0 * options.minutes
    pairs: list[tuple[LongRun, LongRun]] = []
    with new_place("endurance") as place:
        rate = calibrated(options.launcher, place, min(30.0, run_s), observer)
        load = asking(DEMAND * rate.examples_per_s, run_s, options.launcher, place)
        for index in range(options.repeats):
            two = []
            for name, faults in (("undisturbed", ()), ("disturbed", (FAULT,))):
                one = long_run(load, options.launcher, place / f"{name}-{index}", faults, limit_s=60.0 + 5 * run_s)
                _tell(observer, name, index, options.repeats, one)
                shutil.rmtree(place / f"{name}-{index}", ignore_errors=True)
                two.append(one)
            pairs.append((two[0], two[1]))
    return Record.of(
        "faults.endurance", figures_of(rate, pairs), details=details_of(rate, load, pairs), command=command
    )


def calibrated(launcher: Path, place: Path, run_s: float, observer: Observer) -> LongRun:
    """A run as fast as the data come, of about `run_s`; how many those are, a short one tells first."""
    guess = long_run(Load(0.0, SPLITS * BATCH, 4), launcher, place / "guess")
    found = long_run(Load.lasting(run_s, guess.examples_per_s, 0.0, run_s / 3), launcher, place / "calibration")
    _tell(observer, "calibration", 0, 1, found)
    return found


def asking(examples_per_s: float, run_s: float, launcher: Path, place: Path) -> Load:
    """The load of a rank that takes so many examples a second: what a step takes beside the emulated time, which a
    short run tells, counts as part of it."""
    wanted_ms = 1e3 * BATCH / examples_per_s
    tried = long_run(Load(wanted_ms, SPLITS * BATCH, 4), launcher, place / "step").summary
    assert tried.step_ms is not None and tried.wait_ms is not None  # steps were taken
    beside_ms = max(0.0, tried.step_ms.median - tried.wait_ms.median - wanted_ms)
    return Load.lasting(run_s, examples_per_s, max(0.0, wanted_ms - beside_ms))


def figures_of(rate: LongRun, pairs: Sequence[tuple[LongRun, LongRun]]) -> Mapping[str, Figure]:
    """The flat table."""
    calm, harmed = zip(*pairs, strict=True)
    rates = [[run.examples_per_s for run in runs] for runs in (calm, harmed)]
    return {
        RATIO: Figure.ratio(rates[1], rates[0], against="the same job undisturbed"),
        "faults.kill_every_5s.demand": Figure.of(
            [one / rate.examples_per_s for one in rates[0]], unit="x", against="what the workers can deliver"
        ),
        "faults.kill_every_5s.undisturbed": Figure.of(rates[0], unit="examples/s"),
        "faults.kill_every_5s.disturbed": Figure.of(rates[1], unit="examples/s"),
        "faults.kill_every_5s.kills": Figure.of([float(run.kills) for run in harmed], unit="kills"),
        "faults.kill_every_5s.missing": Figure.single(
            sum(int(epoch.get("missing") or 0) for run in harmed for epoch in run.summary.epochs), unit="examples"
        ),
    }


def details_of(rate: LongRun, load: Load, pairs: Sequence[tuple[LongRun, LongRun]]) -> dict[str, Any]:
    """Everything else, with the breaches of every run."""
    named = [
        (f"{name} {index + 1}", run) for index, pair in enumerate(pairs) for name, run in zip(_NAMES, pair, strict=True)
    ]
    cases = [{"case": name, **run.to_json()} for name, run in named]
    waits = rate.summary.wait_pct or 0.0
    if waits < BOUND_PCT:
        cases.append(
            {
                "case": "calibration",
                "breaches": [f"it waits for data {waits:.0f} % of the time: something else limits it"],
            }
        )
    return {
        "workers": WORKERS,
        "chain": CHAIN,
        "batch_size": BATCH,
        "fault": FAULT,
        "demand": DEMAND,
        "step_ms": load.step_ms,
        "calibration": rate.to_json(),
        "rows": [row(name, run) for name, run in [("calibration", rate), *named]],
        "cases": cases,
    }


_NAMES = ("undisturbed", "disturbed")


def row(name: str, run: LongRun) -> dict[str, Any]:
    """A line of the printed table."""
    return {
        "run": name,
        "step ms": run.load.step_ms,
        "wall s": round(run.wall_s, 1),
        "examples/s": run.examples_per_s,
        "of steps alone": run.summary.examples_per_s,
        "wait %": run.summary.wait_pct,
        "kills": run.kills,
        "restarts": run.summary.restarts,
        "missing": sum(int(epoch.get("missing") or 0) for epoch in run.summary.epochs),
        "repeated": sum(int(epoch.get("repeated") or 0) for epoch in run.summary.epochs),
    }


def _tell(observer: Observer, name: str, index: int, rounds: int, run: LongRun) -> None:
    said = [f"{run.examples_per_s:.0f} examples/s", *run.breaches]
    report(observer, name, index + 1, rounds, said, run.wall_s)
