"""`benchmarks.launch`: AWS's example launcher and tfhet's on the same simulated cluster, in turns."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks import chosen
from benchmarks.cluster_runs.job_data import write_channel
from benchmarks.cluster_runs.run_folder import run_folder
from benchmarks.launch.flow_run import FLOWS, Flow, FlowRun, Load, flow_run
from tfhet.bench import Suite, harness
from tfhet.container import kernel
from tfhet.errors import UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record
from tfhet.report import numbers
from tfhet.simulate import ClusterFile, GroupFile

EXAMPLE, OWN = "example", "tfhet"
TEARDOWN_LIMIT_S = 2.0
"""Seconds after the last step within which the last of tfhet's launchers should end."""
CHAIN = "aws-cifar"
EXAMPLES = 50_000
"""Size of CIFAR-10, on which the example trains."""
REPEATS = 5
RUN_LIMIT_S = 600.0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=REPEATS, warmup=0)
    parser.add_argument("--hosts", choices=("namespace", "process"), default="namespace", help="default %(default)s")
    parser.add_argument("--flows", default=",".join(FLOWS), metavar="NAMES", help="default %(default)s")
    parser.add_argument("--data_hosts", type=int, default=2, metavar="N", help="default %(default)s")
    parser.add_argument("--dnn_hosts", type=int, default=2, metavar="N", help="default %(default)s")
    parser.add_argument("--cpus", type=float, default=0.5, metavar="X", help="of each host (default %(default)s)")
    parser.add_argument("--model", default="small_cnn", help="or resnet50 (default %(default)s)")
    parser.add_argument("--batch_size", type=int, default=64, metavar="N", help="of a rank (default %(default)s)")
    parser.add_argument("--steps", type=int, default=40, metavar="N", help="of a run (default %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs, and print where they are")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    flows, load = chosen("--flows", options.flows, FLOWS), Load(options.model, options.batch_size, options.steps)
    if min(options.data_hosts, options.dnn_hosts, options.steps, options.batch_size) < 1:
        raise UsageError("--data_hosts, --dnn_hosts, --steps and --batch_size: give at least 1")
    start = "toolkit" if options.hosts == "namespace" else "ranks"
    if options.hosts == "namespace":
        kernel.require("toolkit")
    with run_folder("launch", keep=options.keep) as place:
        most = max(EXAMPLES, options.dnn_hosts * options.steps * options.batch_size)
        write_channel(place / "data", CHAIN, options.batch_size, -(-most // options.batch_size))
        cluster = cluster_of(options, place / "data")

        def once(flow: Flow, index: int) -> FlowRun:
            folder = place / f"{flow.name}-{index}"
            run = flow_run(
                flow, load, cluster, folder, hosts=options.hosts, start=start, seed=index, limit_s=RUN_LIMIT_S
            )
            if not options.keep:
                shutil.rmtree(folder, ignore_errors=True)
            return run

        runs = harness.in_rounds(
            {flow.name: partial(once, flow) for flow in flows},
            _described,
            warmup=options.warmup,
            repeats=options.repeats,
            observer=observer,
        )
    details = {
        "hosts": options.hosts,
        "start": start,
        "cluster": {name: vars(group) for name, group in cluster.groups.items()},
        "load": vars(load),
        "runs_measured": {name: [vars(run) for run in some] for name, some in runs.items()},
        "runs": str(place) if options.keep else None,
    }
    return Record.of("launch", figures_of(runs), details=details, command=command)


def cluster_of(options: argparse.Namespace, channel: Path) -> ClusterFile:
    """Returns the cluster. Hosts that are processes cannot have a share of a CPU."""
    cpus = options.cpus if options.hosts == "namespace" else None
    groups = {
        "data_group": GroupFile(hosts=options.data_hosts, instance_type="ml.c5.xlarge", cpus=cpus),
        "dnn_group": GroupFile(hosts=options.dnn_hosts, instance_type="ml.p3.2xlarge", cpus=cpus),
    }
    return ClusterFile("launch", groups, {"training": str(channel)})


_TIMES: Mapping[str, tuple[Callable[[FlowRun], float], str]] = {
    "first_batch_s": (lambda run: run.first_batch_s, "s"),
    "first_step_s": (lambda run: run.first_step_s, "s"),
    "teardown_s": (lambda run: run.teardown_s, "s"),
    "containers_s": (lambda run: run.containers_s, "s"),
    "step_ms": (lambda run: run.mean_step_ms, "ms"),
}


def figures_of(runs: Mapping[str, Sequence[FlowRun]]) -> dict[str, Figure]:
    """Returns the figures: `launch.TIME` of tfhet's launcher and trainer, `launch.FLOW.TIME` of the other flows."""
    figures: dict[str, Figure] = {}
    for flow, measured in runs.items():
        prefix = "launch" if flow == OWN else f"launch.{flow}"
        if flow != EXAMPLE and EXAMPLE in runs:
            steps = ([run.mean_step_ms for run in runs[name]] for name in (EXAMPLE, flow))
            figures[f"{prefix}.step_vs_example"] = Figure.ratio(*steps, against=FLOWS[EXAMPLE].words)
        for name, (time, unit) in _TIMES.items():
            figures[f"{prefix}.{name}"] = Figure.of([time(run) for run in measured], unit=unit)
    return figures


def breaches(record: Record) -> list[str]:
    """Returns a line if launchers of the flow `tfhet` ended too late. How fast a user's script ends is its own."""
    runs = record.details["runs_measured"].get(OWN, ())
    late = [run["teardown_s"] for run in runs if run["teardown_s"] > TEARDOWN_LIMIT_S]
    if not late:
        return []
    lines = f"{len(late)} of {len(runs)} runs ended more than {TEARDOWN_LIMIT_S:g} s after the last step"
    return [f"{OWN}: {lines}: {max(late):.2f} s"]


def _notes(record: Record) -> list[str]:
    lines = []
    if record.details["hosts"] == "process":
        lines.append("hosts are processes: they have no CPU quota, and no toolkit or MPI started the launchers")
    return [*lines, f"runs: {record.details['runs']}"] if record.details["runs"] else lines


def _described(flow: str, run: FlowRun) -> str:
    first, last = f"first batch after {run.first_batch_s:.1f} s", f"end {run.teardown_s:.2f} s after the last step"
    return f"step {numbers.number(run.mean_step_ms)} ms, {first}, {last}"


SUITE = Suite(
    name="launch",
    does="tfhet's launcher and AWS's example on one cluster: step, start to first batch, last step to end",
    options=_options,
    run=_run,
    notes=_notes,
    breaches=breaches,
)
