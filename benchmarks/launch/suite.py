"""`benchmarks.launch`: the flow of AWS's example and tfhet's on the same simulated cluster, side by side.

Same hosts, same quotas, same chain on the same data, in turns: the time of a step, from the start of the job to the
first batch, and from the last step to the end of the last launcher.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks import chosen
from benchmarks.charts.plot import drawn_bars
from benchmarks.cluster_runs.job_data import write_apart
from benchmarks.cluster_runs.observed_job import new_place
from benchmarks.launch.flow_run import FLOWS, Flow, FlowRun, Load, flow_run
from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import Suite
from tfhet.errors import UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record
from tfhet.report import numbers, table, text
from tfhet.simulate import ClusterFile, GroupFile

EXAMPLE = "example"
TEARDOWN_LIMIT_S = 2.0
"""So soon after the last step the last of tfhet's launchers is to be gone."""
CHAIN = "aws-cifar"
EXAMPLES, FILE_EXAMPLES = 50_000, 512
"""CIFAR-10, on which the example trains, has so many; in each file."""
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
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs, and say where")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    flows, load = chosen("--flows", options.flows, FLOWS), Load(options.model, options.batch_size, options.steps)
    if min(options.data_hosts, options.dnn_hosts, options.steps, options.batch_size) < 1:
        raise UsageError("--data_hosts, --dnn_hosts, --steps and --batch_size: give at least 1")
    start = "toolkit" if options.hosts == "namespace" else "ranks"
    with new_place("launch", keep=options.keep) as place:
        examples = channel_of_digits(place / "data", options)
        cluster = cluster_of(options, place / "data")

        def once(flow: Flow, index: int) -> FlowRun:
            folder = place / f"{flow.name}-{index}"
            run = flow_run(
                flow, load, cluster, folder, hosts=options.hosts, start=start, seed=index, limit_s=RUN_LIMIT_S
            )
            if not options.keep:
                for made in place.glob(f"{folder.name}*"):  # of a cold one the cache, too
                    shutil.rmtree(made, ignore_errors=True)
            return run

        runs = in_rounds(
            {flow.name: partial(once, flow) for flow in flows},
            _said,
            warmup=options.warmup,
            repeats=options.repeats,
            observer=observer,
        )
    details = {
        "hosts": options.hosts,
        "start": start,
        "cpus_per_host": options.cpus if options.hosts == "namespace" else None,
        "cluster": {name: vars(group) for name, group in cluster.groups.items()},
        "load": vars(load),
        "chain": CHAIN,
        "examples": examples,
        "rows": rows(runs),
        "runs_measured": {name: [run.to_json() for run in some] for name, some in runs.items()},
        "runs": str(place) if options.keep else None,
    }
    return Record.of("launch", figures_of(runs), details=details, command=command)


def channel_of_digits(directory: Path, options: argparse.Namespace) -> int:
    """The digits again and again; how many: those of the example's data set, or what all ranks take in a run."""
    files = -(-max(EXAMPLES, options.dnn_hosts * options.steps * options.batch_size) // FILE_EXAMPLES)
    write_apart(directory, CHAIN, FILE_EXAMPLES, files)
    return files * FILE_EXAMPLES


def cluster_of(options: argparse.Namespace, channel: Path) -> ClusterFile:
    """All hosts with the same share of a CPU, where hosts can be held to one."""
    cpus = options.cpus if options.hosts == "namespace" else None
    groups = {
        "data_group": GroupFile(hosts=options.data_hosts, instance_type="ml.c5.xlarge", cpus=cpus),
        "dnn_group": GroupFile(hosts=options.dnn_hosts, instance_type="ml.p3.2xlarge", cpus=cpus),
    }
    return ClusterFile("launch", groups, {"training": str(channel)})


Times = Callable[[FlowRun], float]

_TIMES: Mapping[str, tuple[Times, str]] = {
    "first_batch_s": (lambda run: run.first_batch_s, "s"),
    "first_step_s": (lambda run: run.first_step_s, "s"),
    "teardown_s": (lambda run: run.teardown_s, "s"),
    "containers_s": (lambda run: run.containers_s, "s"),
    "step_ms": (lambda run: run.step, "ms"),
}


def figures_of(runs: Mapping[str, Sequence[FlowRun]]) -> Mapping[str, Figure]:
    """The flat table: `launch.TIME` of tfhet, with the example's beside it, and `launch.FLOW.TIME` of every flow."""
    figures: dict[str, Figure] = {}
    peer = runs.get(EXAMPLE)
    own = runs.get("tfhet")
    if own:
        for name, (time, unit) in _TIMES.items():
            against = None
            if peer:
                theirs = Figure.of([time(run) for run in peer], unit=unit)
                against = f"{FLOWS[EXAMPLE].words}: {numbers.number(theirs.value)} {unit}"
            figures[f"launch.{name}"] = Figure.of([time(run) for run in own], unit=unit, against=against)
    for flow in [name for name in runs if name != EXAMPLE and peer and not FLOWS[name].is_cold]:
        assert peer is not None
        words = f"{FLOWS[EXAMPLE].words}: its step over this one's"
        figures["launch.step_vs_example" if flow == "tfhet" else f"launch.{flow}.step_vs_example"] = Figure.ratio(
            [run.step for run in peer], [run.step for run in runs[flow]], against=words
        )
    for flow, some in runs.items():
        for name, (time, unit) in _TIMES.items():
            if flow != "tfhet":
                figures[f"launch.{flow}.{name}"] = Figure.of([time(run) for run in some], unit=unit)
    return figures


def rows(runs: Mapping[str, Sequence[FlowRun]]) -> list[dict[str, object]]:
    """The printed table: medians over the runs."""
    found = []
    for flow, some in runs.items():
        of = {name: Figure.of([time(run) for run in some], unit=unit) for name, (time, unit) in _TIMES.items()}
        found.append(
            {
                "flow": FLOWS[flow].words,
                "runs": len(some),
                "step ms": of["step_ms"].value,
                "start to first batch s": of["first_batch_s"].value,
                "to the end of the first step s": of["first_step_s"].value,
                "last step to last launcher s": of["teardown_s"].value,
                "at most s": max(run.teardown_s for run in some),
                "to last container s": of["containers_s"].value,
            }
        )
    return found


def breaches(record: Record) -> list[str]:
    """Runs of tfhet's launcher that ended later than they should have."""
    found = []
    for flow, some in record.details["runs_measured"].items():
        late = [run["teardown_s"] for run in some if run["teardown_s"] > TEARDOWN_LIMIT_S]
        if flow == "tfhet" and late:  # how long a user's script takes to end is the script's own
            found.append(
                f"{flow}: the last launcher was gone {max(late):.2f} s after the last step, later than "
                f"{TEARDOWN_LIMIT_S:g} s, in {len(late)} of {len(some)} runs"
            )
    return found


def _notes(record: Record) -> list[str]:
    lines = text(table(record.details["rows"]), encoding=None).splitlines()
    if record.details["hosts"] == "process":
        lines.append("hosts are processes: no CPU quota held, and no toolkit or MPI started the launchers")
    if record.details["runs"]:
        lines.append(f"runs: {record.details['runs']}")
    return [*lines, *(f"not kept: {breach}" for breach in breaches(record))]


def _bars(record: Record) -> tuple[str, Mapping[str, Figure]]:
    named = {"launch": "tfhet", **{f"launch.{flow}": flow for flow in FLOWS}}
    bars = {}
    for name, words in (("first_batch_s", "start to first batch"), ("teardown_s", "last step to last launcher")):
        for prefix, flow in named.items():
            if f"{prefix}.{name}" in record.figures:
                bars[f"{words}: {flow}"] = record.figures[f"{prefix}.{name}"]
    return "launch: seconds", bars


def _said(flow: str, run: FlowRun) -> str:
    said = [
        f"step {numbers.number(run.step)} ms",
        f"first batch after {run.first_batch_s:.1f} s",
        f"last launcher {run.teardown_s:.2f} s after the last step",
    ]
    return ", ".join(said)


SUITE = drawn_bars(
    Suite(
        name="launch",
        does="this launcher and that of AWS's example on one cluster: step, start to first batch, last step to end",
        options=_options,
        run=_run,
        notes=_notes,
        is_kept=lambda record: not breaches(record),
    ),
    _bars,
)
