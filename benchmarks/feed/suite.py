"""`benchmarks.feed`: the chain of AWS's PyTorch example, prepared on the host that trains and on data hosts.

Hosts have the vCPUs of the example's, 8 and 44, scaled down until they fit on this machine, and an accelerator that is
emulated. What the CPUs allow is what a batch costs one process that does nothing else, over the CPUs of all hosts that
prepare batches; what the quotas allow is what as many such processes make under the same quotas.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import ROOT, child_environment
from benchmarks.cluster_runs.awake_cpus import awake
from benchmarks.cluster_runs.cold_loads import Calm, beside
from benchmarks.cluster_runs.observed_job import ObservedJob, new_place
from benchmarks.cluster_runs.point import MODE
from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import JOB, Suite
from tfhet.container import kernel
from tfhet.container.cgroup import Cgroup, Limits
from tfhet.errors import JobFailed, UsageError
from tfhet.events import Observer
from tfhet.planes import with_malloc_tunables
from tfhet.record import Figure, Record, RunSummary
from tfhet.simulate import ClusterFile, GroupFile

SCRIPT = ROOT / "benchmarks" / "job_scripts" / "feed_train.py"
SCALE = 40
"""vCPUs of the example for one CPU here."""
BATCH_SIZE, BLURS, STEP_MS = 32, 20, 2.0
LIMIT_S = 300.0
MAKER, ALLOWED = "benchmarks.feed.maker", "allowed"
ALONE_S = 2.0
"""Seconds for which a process makes batches alone."""


@dataclass(frozen=True)
class Case:
    """The hosts of a run. cpus: of each; processes: of the feed, on each."""

    dnn_cpus: float
    dnn_processes: int = 0
    data_hosts: int = 0
    data_cpus: float = 0.0
    data_processes: int = 1

    @property
    def preparing_cpus(self) -> float:
        """CPUs of the hosts that prepare batches."""
        return sum(cpus for cpus, _ in self.preparing)

    @property
    def preparing(self) -> list[tuple[float, int]]:
        """CPUs of each host that prepares batches, and the number of its processes."""
        data = [(self.data_cpus, self.data_processes)] * self.data_hosts
        return [*([(self.dnn_cpus, self.dnn_processes)] if self.dnn_processes else []), *data]

    def cluster(self, name: str) -> ClusterFile:
        groups = {"dnn_group": GroupFile(cpus=self.dnn_cpus)}
        if self.data_hosts:
            groups["data_group"] = GroupFile(hosts=self.data_hosts, cpus=self.data_cpus)
        return ClusterFile(name, groups)

    def words(self) -> list[str]:
        given = {"dnn_host_processes": self.dnn_processes, "data_host_processes": self.data_processes}
        return [word for name, value in given.items() for word in (f"--{name}", str(value))]


CASES: Mapping[str, Case] = {
    "homogeneous": Case(8 / SCALE, 1),
    "heterogeneous": Case(8 / SCALE, 1, 1, 44 / SCALE, 2),
    "one_small": Case(0.3, 0, 1, 0.1),
    "ten_small": Case(0.3, 0, 10, 0.1),
}
"""The last two: data hosts of 0.1 CPU, and a host that trains and does not prepare."""


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=3, warmup=0)
    parser.add_argument("--seconds", type=float, default=15.0, metavar="N", help="measured in a run (%(default)s)")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    kernel.require("namespace")
    with new_place("feed") as place, awake():
        runs: dict[str, Any] = {"batch_cpu": lambda index: batch_cpu_s()}
        for name, case in CASES.items():
            runs[name] = functools.partial(_measured, name, case, place, options.seconds)
            runs[f"{name}.{ALLOWED}"] = functools.partial(_allowed_s, case, options.seconds)
        calm = Calm()
        each = in_rounds(
            {name: beside(run, calm) for name, run in runs.items()},
            lambda name, one: f"{1e3 * one.found:.1f} ms; a load from memory {one.cold_load_ns:.0f} ns",
            warmup=options.warmup,
            repeats=options.repeats,
            observer=observer,
        )
    taken = {name: [one.found for one in found] for name, found in each.items()}
    loads_ns = {name: [one.cold_load_ns for one in found] for name, found in each.items()}
    details = {"cases": {name: vars(case) for name, case in CASES.items()}, "seconds": options.seconds}
    details |= {"batch_size": BATCH_SIZE, "blurs": BLURS, "step_ms": STEP_MS, "samples_s": taken}
    details |= {"cold_load_ns": loads_ns, "waited_s": calm.waited_s}
    return Record.of("feed", figures_of(taken, loads_ns), details=details, command=command)


def _measured(name: str, case: Case, place: Path, seconds: float, index: int) -> float:
    """Seconds of a step, in the mean of a run."""
    job = {"train_script": SCRIPT.name, "seconds": seconds, "batch_size": BATCH_SIZE}
    job |= {"blurs": BLURS, "step_ms": STEP_MS}
    words = [word for name, value in job.items() for word in (f"--{name}", str(value))]
    launcher = ["tfhet_launcher.py", "--data_plane", "feed", *case.words(), *words]
    at = place / f"{name}-{index}"
    at.mkdir()
    summary: RunSummary = ObservedJob(case.cluster(name), launcher, at, max_run_s=LIMIT_S, **MODE).run()
    if summary.exit_code or not summary.examples_per_s or summary.not_limited:
        raise JobFailed(f"{name}: exit code {summary.exit_code}: {summary.cause}; not limited: {summary.not_limited}")
    return BATCH_SIZE / summary.examples_per_s


def _maker() -> contextlib.AbstractContextManager[AnsweringProcess]:
    """A process that makes batches, with the allocator of the processes of a feed."""
    return AnsweringProcess.of_module(MAKER, env=with_malloc_tunables(child_environment()))


def batch_cpu_s() -> float:
    """CPU seconds of making a batch, in a process that does nothing else."""
    with _maker() as maker:
        maker.ask({"prepare": [BATCH_SIZE, BLURS]}, LIMIT_S)
        taken = maker.ask({"make": ALONE_S}, LIMIT_S)
    return float(taken["cpu_s"] / taken["batches"])


def _allowed_s(case: Case, seconds: float, index: int) -> float:
    """Seconds between two batches, where processes under the quotas of the case's hosts make them and do nothing
    else."""
    makers: list[AnsweringProcess] = []
    with contextlib.ExitStack() as stack:
        for at, (cpus, processes) in enumerate(case.preparing):
            cgroup = Cgroup.create(f"tfhet-feed-bench-{at}")
            stack.callback(cgroup.remove)
            if refused := cgroup.limit(Limits(cpus)):
                raise UsageError(f"this machine cannot limit: {', '.join(refused)}; see tfhet doctor")
            for _ in range(processes):
                maker = stack.enter_context(_maker())
                maker.ask({"prepare": [BATCH_SIZE, BLURS]}, LIMIT_S)
                cgroup.add(maker.pid)
                makers.append(maker)
        for maker in makers:
            maker.request({"make": seconds})
        taken = [maker.answer(LIMIT_S) for maker in makers]
    return 1.0 / sum(each["batches"] / each["seconds"] for each in taken)


def figures_of(taken: Mapping[str, Sequence[float]], loads_ns: Mapping[str, Sequence[float]]) -> dict[str, Figure]:
    """Seconds of a step by case, and what follows from them, round by round. loads_ns: what a load from memory cost
    beside each run."""
    figures = {f"feed.{name}.step_s": Figure.of(taken[name], unit="s") for name in CASES}
    figures |= {f"feed.{name}.cold_load_ns": Figure.of(loads_ns[name], unit="ns") for name in CASES}
    figures["feed.batch_cpu_s"] = Figure.of(taken["batch_cpu"], unit="s")
    figures["feed.speedup"] = Figure.ratio(
        taken["homogeneous"], taken["heterogeneous"], unit="x", against="without data hosts"
    )
    for name, case in CASES.items():
        least = [cpu_s / case.preparing_cpus for cpu_s in taken["batch_cpu"]]
        figures[f"feed.{name}.vs_cpus"] = Figure.ratio(
            taken[name], least, unit="x", against="what the CPUs of the hosts that prepare allow"
        )
        figures[f"feed.{name}.vs_quota"] = Figure.ratio(
            taken[name],
            taken[f"{name}.{ALLOWED}"],
            unit="x",
            against="what makes batches and nothing else, in its quota",
        )
    ten = [10 * step_s for step_s in taken["ten_small"]]
    figures["feed.scaling"] = Figure.ratio(taken["one_small"], ten, unit="x", against="ten times one data host")
    return figures


SUITE = Suite(
    name="feed",
    does="steps of AWS's PyTorch example with its batches made where it trains, and on data hosts",
    measures=(*JOB, "benchmarks/feed", "benchmarks/cluster_runs"),
    options=_options,
    run=_run,
)
