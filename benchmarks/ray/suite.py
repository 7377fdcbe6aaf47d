"""`benchmarks.ray`: the job of an article on Ray on SageMaker, prepared where it trains, and on a data host as well.

Hosts have the vCPUs of the article's, 4 and 16, scaled down until they fit on this machine, and an accelerator that is
emulated. What the CPUs allow is what a batch costs one process that does nothing else, over the CPUs of all hosts.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import ROOT, child_environment
from benchmarks.cluster_runs.awake_cpus import awake
from benchmarks.cluster_runs.observed_job import ObservedJob, new_place
from benchmarks.cluster_runs.point import MODE
from benchmarks.ray.case import CASES, SCALE, Case, Prices
from benchmarks.ray.needed import require
from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import JOB, Suite
from tfhet.container import kernel
from tfhet.errors import JobFailed
from tfhet.events import Observer
from tfhet.planes.ray.private import SPILLED, STORED
from tfhet.record import Figure, Record, RunSummary, versions
from tfhet.units import MB

SCRIPT = "examples/ray-vit/train.py"
BATCH_SIZE, BLURS, STEP_MS = 128, 10, 2.0
IMAGES = 1000 * BATCH_SIZE
"""More than a run reads, so that it has no end of an epoch."""
STORE_MB = 500
"""Size of each host's object store."""
LIMIT_S = 240.0


@dataclass(frozen=True)
class Taken:
    """What one run came to."""

    step_s: float
    """Seconds of a step, in the mean."""
    stored_mb: float
    """The highest use of a host's object store."""
    spilled_mb: float
    """What all hosts spilled to disk."""

    @classmethod
    def of(cls, name: str, summary: RunSummary) -> Taken:
        """What a run's record says. Raises JobFailed for one that failed, or whose hosts were not limited."""
        if summary.exit_code or not summary.examples_per_s or summary.not_limited or not summary.plane_use:
            why = f"exit code {summary.exit_code}: {summary.cause}; not limited: {summary.not_limited}"
            raise JobFailed(f"{name}: {why}; used by Ray: {dict(summary.plane_use)}")
        used = summary.plane_use.values()
        stored = max(one[f"{STORED}_peak"] for one in used)
        return cls(BATCH_SIZE / summary.examples_per_s, stored / MB, sum(one[SPILLED] for one in used) / MB)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=3, warmup=0)
    parser.add_argument("--seconds", type=float, default=20.0, metavar="N", help="measured in a run (%(default)s)")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    require("ray", "torch", "scipy")
    kernel.require("namespace")
    prices = Prices.known()
    with new_place("ray") as place, awake():
        runs: dict[str, Any] = {"batch_cpu": lambda index: batch_cpu_s()}
        for name, case in CASES.items():
            runs[name] = functools.partial(_measured, name, case, place, options.seconds)
        taken = in_rounds(
            runs,
            lambda name, found: f"{1e3 * (found if name == 'batch_cpu' else found.step_s):.1f} ms",
            warmup=options.warmup,
            repeats=options.repeats,
            observer=observer,
        )
    cpu_s, jobs = taken.pop("batch_cpu"), taken
    details = {"cases": {name: {"cpus": case.cpus, "hosts": case.instances} for name, case in CASES.items()}}
    details |= {"scale": SCALE, "seconds": options.seconds, "batch_size": BATCH_SIZE, "blurs": BLURS}
    details |= {"step_ms": STEP_MS, "object_store_mb": STORE_MB, "prices": vars(prices), "batch_cpu_s": cpu_s}
    details |= {"runs": {name: [vars(one) for one in found] for name, found in jobs.items()}}
    details |= {"peers": versions(("ray", "torch", "scipy"))}
    return Record.of("ray", figures_of(cpu_s, jobs, prices), details=details, command=command)


def _measured(name: str, case: Case, place: Path, seconds: float, index: int) -> Taken:
    given = {"dnn_host_cpus": -1 if not case.data_hosts else 1, "object_store_mb": STORE_MB, "train_script": SCRIPT}
    given |= {"images": IMAGES, "batch_size": BATCH_SIZE, "blurs": BLURS, "accelerator_ms": STEP_MS}
    words = [word for key, value in {**given, "seconds": seconds}.items() for word in (f"--{key}", str(value))]
    launcher = ["scripts/launcher.py", "--strategy", "torch", "--data_plane", "ray", *words]
    at = place / f"{name}-{index}"
    at.mkdir()
    how = {**MODE, "code": ROOT}
    return Taken.of(name, ObservedJob(case.cluster(name), launcher, at, max_run_s=LIMIT_S, **how).run())


def batch_cpu_s() -> float:
    """CPU seconds of making a batch, in a process that does nothing else."""
    words = [sys.executable, "-c", _ALONE, str(ROOT / SCRIPT), str(BATCH_SIZE), str(BLURS)]
    done = subprocess.run(words, env=child_environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise JobFailed("a batch cannot be made", log_tail=done.stderr.splitlines()[-20:])
    return float(json.loads(done.stdout))


_ALONE = """
import json, runpy, sys, time
import numpy as np
prepared, size = runpy.run_path(sys.argv[1], run_name="__mp_main__")["prepared"], int(sys.argv[2])
for count in (3, 30):
    began = time.process_time()
    for batch in range(count):
        prepared({"id": np.arange(batch * size, (batch + 1) * size)}, int(sys.argv[3]))
print(json.dumps((time.process_time() - began) / 30))
"""


def figures_of(cpu_s: Sequence[float], jobs: Mapping[str, Sequence[Taken]], prices: Prices) -> dict[str, Figure]:
    """Seconds of a step by case, and what follows from them, round by round."""
    steps = {name: [one.step_s for one in taken] for name, taken in jobs.items()}
    figures = {f"ray.{name}.step_s": Figure.of(steps[name], unit="s") for name in CASES}
    figures["ray.batch_cpu_s"] = Figure.of(cpu_s, unit="s")
    figures["ray.speedup"] = Figure.ratio(
        steps["homogeneous"], steps["heterogeneous"], unit="x", against="without a data host"
    )
    for name, case in CASES.items():
        least = [one / case.cpus for one in cpu_s]
        figures[f"ray.{name}.vs_cpus"] = Figure.ratio(
            steps[name], least, unit="x", against="what the CPUs of all hosts allow"
        )
        figures[f"ray.{name}.object_store_mb"] = Figure.of([one.stored_mb for one in jobs[name]], unit="MB")
        figures[f"ray.{name}.spilled_mb"] = Figure.of([one.spilled_mb for one in jobs[name]], unit="MB")
    before, after = (
        [step_s * prices.of(CASES[name]) for step_s in steps[name]] for name in ("homogeneous", "heterogeneous")
    )
    saved = [100.0 * (1.0 - with_data / alone) for alone, with_data in zip(before, after, strict=True)]
    words = f"the cost of a step without a data host, at prices of {prices.market} in {prices.region}"
    figures["ray.saving_pct"] = Figure.of(saved, unit="%", against=words)
    return figures


SUITE = Suite(
    name="ray",
    does="steps of an article's job on Ray with its batches made where it trains, and on a data host",
    measures=(*JOB, "benchmarks/ray", "examples/ray-vit"),
    options=_options,
    run=_run,
)
