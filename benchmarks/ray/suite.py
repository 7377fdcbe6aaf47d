"""`benchmarks.ray`: the work of an article on Ray on SageMaker, prepared where it trains, and on a data host as well.

Hosts have the vCPUs of the article's, 4 and 16, scaled down until they fit on this machine, and an accelerator that is
emulated. What the CPUs allow is what a batch costs one process that does nothing else, over the CPUs of all hosts but
those that Ray's own processes, the rank and the launchers take. The process is measured while each other CPU does the
same: those of a virtual machine are threads that share a core, and a cluster that waits for its input uses all.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import child_environment
from benchmarks.cluster_runs.awake_cpus import awake
from benchmarks.cluster_runs.observed_job import new_place
from benchmarks.planes.windowed_job import Window, WindowedJob
from benchmarks.ray.case import CASES, OWN_CPUS, SCALE, Case, Prices
from benchmarks.ray.needed import require
from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import JOB, Suite
from tfhet.container import kernel
from tfhet.errors import JobFailed
from tfhet.events import Observer
from tfhet.planes.ray.private import SPILLED, STORED
from tfhet.record import Figure, Record, usable_cores, versions
from tfhet.units import MB

CHAIN, STEP_MS = "blurs", 2.0
STORE_MB = 500
"""Size of each host's object store."""
LIMIT_S = 400.0
ALONE, BUSY = "batch_cpu", "batch_cpu_busy"
"""A batch, made while all other CPUs are idle, and while they make batches too."""


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=3, warmup=0)
    parser.add_argument("--seconds", type=float, default=45.0, metavar="N", help="measured in a run (%(default)s)")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    require("ray", "torch", "scipy")
    kernel.require("namespace")
    prices = Prices.known()
    with new_place("ray") as place, awake():
        runs: dict[str, Any] = {
            ALONE: lambda index: batch_cpu_s(CHAIN),
            BUSY: lambda index: batch_cpu_s(CHAIN, at_once=usable_cores()),
        }
        for name, case in CASES.items():
            runs[name] = functools.partial(_measured, name, case, place, options.seconds)
        taken = in_rounds(
            runs,
            lambda name, found: f"{1e3 * (found.step_s if isinstance(found, Window) else found):.1f} ms",
            warmup=options.warmup,
            repeats=options.repeats,
            observer=observer,
        )
    cpu_s = {name: taken.pop(name) for name in (ALONE, BUSY)}
    details: dict[str, Any] = {
        "cases": {name: {"cpus": case.cpus, "hosts": case.instances} for name, case in CASES.items()}
    }
    details |= {"scale": SCALE, "seconds": options.seconds, "step_ms": STEP_MS, "object_store_mb": STORE_MB}
    details |= {"prices": vars(prices), "batch_cpu_s": cpu_s, "peers": versions(("ray", "torch", "scipy"))}
    details |= {"own_cpus": OWN_CPUS}
    details |= {"runs": {name: [one.to_json() for one in found] for name, found in taken.items()}}
    return Record.of("ray", figures_of(cpu_s, taken, prices), details=details, command=command)


def _measured(name: str, case: Case, place: Path, seconds: float, index: int) -> Window:
    given = {"chain": CHAIN, "step_ms": STEP_MS, "seconds": seconds, "object_store_mb": STORE_MB, **case.offered}
    words = [word for key, value in given.items() for word in (f"--{key}", str(value))]
    at = place / f"{name}-{index}"
    return WindowedJob(case.cluster(name), "ray", words, at, max_run_s=LIMIT_S).window()


def batch_cpu_s(chain: str, form: str = "numpy", at_once: int = 1) -> float:
    """CPU seconds of making a batch, in a process that does nothing else: by `prepared`, or by TensorFlow. at_once:
    processes that do so at a time, each on a CPU of its own; the mean of all."""
    with ThreadPoolExecutor(at_once) as all_of_them:
        return statistics.fmean(all_of_them.map(functools.partial(_batch_cpu_s, chain, form), range(at_once)))


def _batch_cpu_s(chain: str, form: str, cpu: int) -> float:
    words = [sys.executable, "-m", "benchmarks.planes.pictures", chain, form, str(cpu)]
    done = subprocess.run(words, env=child_environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise JobFailed("a batch cannot be made", log_tail=done.stderr.splitlines()[-20:])
    return float(json.loads(done.stdout))


def figures_of(
    cpu_s: Mapping[str, Sequence[float]], jobs: Mapping[str, Sequence[Window]], prices: Prices
) -> dict[str, Figure]:
    """Seconds of a step by case, and what follows from them, round by round. cpu_s: of a batch, ALONE and BUSY."""
    steps = {name: [one.step_s for one in taken] for name, taken in jobs.items()}
    figures = {f"ray.{name}.step_s": Figure.of(steps[name], unit="s") for name in CASES}
    for name, each_s in cpu_s.items():
        figures[f"ray.{name}_s"] = Figure.of(each_s, unit="s")
    figures["ray.speedup"] = Figure.ratio(
        steps["homogeneous"], steps["heterogeneous"], unit="x", against="without a data host"
    )
    for name, case in CASES.items():
        own = [(sum(one.cpu_s.values()) - one.tasks_cpu_s) / one.seconds for one in jobs[name]]
        least = [each_s / (case.cpus - taken) for each_s, taken in zip(cpu_s[BUSY], own, strict=True)]
        tasks = [one.tasks_cpu_s / one.steps for one in jobs[name]]
        all_s = [each_s / case.cpus for each_s in cpu_s[BUSY]]
        unused = [case.cpus - sum(one.cpu_s.values()) / one.seconds for one in jobs[name]]
        figures[f"ray.{name}.own_cpus"] = Figure.of(own, unit="CPUs")
        figures[f"ray.{name}.unused_cpus"] = Figure.of(unused, unit="CPUs")
        figures[f"ray.{name}.vs_cpus"] = Figure.ratio(
            steps[name],
            least,
            unit="x",
            against="what the CPUs of all hosts allow, but for those that tasks cannot have",
        )
        figures[f"ray.{name}.vs_all_cpus"] = Figure.ratio(
            steps[name], all_s, unit="x", against="what all CPUs of all hosts allow"
        )
        figures[f"ray.{name}.task_vs_batch"] = Figure.ratio(
            tasks, cpu_s[BUSY], unit="x", against="the CPU of making a batch, by nothing else, on all CPUs at once"
        )
        stored = [max(use[f"{STORED}_peak"] for use in one.plane_use.values()) / MB for one in jobs[name]]
        spilled = [sum(use[SPILLED] for use in one.plane_use.values()) / MB for one in jobs[name]]
        figures[f"ray.{name}.object_store_mb"] = Figure.of(stored, unit="MB")
        figures[f"ray.{name}.spilled_mb"] = Figure.of(spilled, unit="MB")
    before, after = ([step_s * prices.of(case) for step_s in steps[name]] for name, case in CASES.items())
    saved = [100.0 * (1.0 - with_data / alone) for alone, with_data in zip(before, after, strict=True)]
    words = f"the cost of a step without a data host, at prices of {prices.market} in {prices.region}"
    figures["ray.saving_pct"] = Figure.of(saved, unit="%", against=words)
    return figures


SUITE = Suite(
    name="ray",
    does="steps of an article's work on Ray with its batches made where it trains, and on a data host",
    measures=(*JOB, "benchmarks/ray", "benchmarks/planes"),
    options=_options,
    run=_run,
)
