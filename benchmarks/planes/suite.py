"""`benchmarks.planes`: the same pictures over tf.data service, the feed and Ray, on the same simulated cluster.

One data host prepares, one dnn host reads as fast as it can. Each plane is configured as its users would: TensorFlow's
threads in one worker, two processes of the feed, two tasks of Ray with blocks of some MB.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import chosen
from benchmarks.cluster_runs.awake_cpus import awake
from benchmarks.cluster_runs.observed_job import new_place
from benchmarks.planes.pictures import CHAINS, Chain
from benchmarks.planes.windowed_job import Window, WindowedJob
from benchmarks.ray.needed import require
from benchmarks.ray.suite import STORE_MB, batch_cpu_s
from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import JOB, Suite
from tfhet.container import kernel
from tfhet.events import Observer
from tfhet.record import Figure, Record, versions
from tfhet.simulate import ClusterFile, GroupFile
from tfhet.units import GB, MB

PLANES: Mapping[str, Mapping[str, int]] = {
    "tf_service": {"data_host_workers": 1, "dnn_host_workers": 0},
    "feed": {"data_host_processes": 2},
    "ray": {"object_store_mb": STORE_MB, "data_host_cpus": 2},
}
"""Arguments of the launcher, by data plane. Ray offers its data host's CPU twice, so that the next task is there when
one ends."""
FORMS = ("numpy", "tf")
"""How a batch is made: by the feed and Ray, and by tf.data service."""
CLUSTER = ClusterFile("planes", {"dnn_group": GroupFile(cpus=0.6), "data_group": GroupFile(cpus=1.0)})
READER, PREPARES = "dnn_group", "data_group"
LIMIT_S = 400.0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=3, warmup=0)
    parser.add_argument("--seconds", type=float, default=10.0, metavar="N", help="measured in a run (%(default)s)")
    parser.add_argument("--planes", default=",".join(PLANES), metavar="NAMES", help="of %(default)s (default: all)")
    parser.add_argument("--chains", default=",".join(CHAINS), metavar="NAMES", help="of %(default)s (default: all)")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    planes = chosen("--planes", options.planes, {name: name for name in PLANES})
    chains = chosen("--chains", options.chains, {name: name for name in CHAINS})
    require("ray", "torch", "scipy", "tensorflow")
    kernel.require("namespace")
    with new_place("planes") as place, awake():
        runs: dict[str, Callable[[int], Any]] = {}
        for chain in chains:
            for form in FORMS:
                runs[f"{form}.{chain}"] = functools.partial(_alone, chain, form)
            for plane in planes:
                runs[f"{plane}.{chain}"] = functools.partial(_measured, plane, chain, place, options.seconds)
        taken = in_rounds(runs, _words, warmup=options.warmup, repeats=options.repeats, observer=observer)
    alone, jobs = divided(taken)
    details: dict[str, Any] = {"chains": {name: vars(CHAINS[name]) for name in chains}, "seconds": options.seconds}
    details |= {"arguments": {name: PLANES[name] for name in planes}, "batch_cpu_s": alone}
    details |= {"cpus": {name: group.cpus for name, group in CLUSTER.groups.items()}}
    details |= {"runs": {name: [one.to_json() for one in found] for name, found in jobs.items()}}
    details |= {"peers": versions(("ray", "torch", "scipy", "tensorflow"))}
    return Record.of("planes", figures_of(alone, jobs), details=details, command=command)


def divided(taken: Mapping[str, list[Any]]) -> tuple[dict[str, list[float]], dict[str, list[Window]]]:
    """CPU seconds of batches made alone, and the windows of jobs, by `FORM.CHAIN` and `PLANE.CHAIN`."""
    alone = {name: found for name, found in taken.items() if name.partition(".")[0] in FORMS}
    return alone, {name: found for name, found in taken.items() if name not in alone}


def _words(name: str, found: Window | float) -> str:
    return f"{1e3 * (found.step_s if isinstance(found, Window) else found):.3g} ms a batch"


def _alone(chain: str, form: str, index: int) -> float:
    return batch_cpu_s(chain, form)


def _measured(plane: str, chain: str, place: Path, seconds: float, index: int) -> Window:
    given = {**PLANES[plane], "chain": chain, "seconds": seconds}
    words = [word for key, value in given.items() for word in (f"--{key}", str(value))]
    return WindowedJob(CLUSTER, plane, words, place / f"{plane}-{chain}-{index}", max_run_s=LIMIT_S).window()


def figures_of(alone: Mapping[str, Sequence[float]], jobs: Mapping[str, Sequence[Window]]) -> dict[str, Figure]:
    """Figures of each plane with each chain, by `PLANE.CHAIN`, and of an example made alone."""
    figures = {}
    for key, seconds in alone.items():
        each = [1e3 * one / CHAINS[key.rpartition(".")[2]].batch_size for one in seconds]
        figures[f"planes.{key}.alone_ms"] = Figure.of(each, unit="ms")
    for key, windows in jobs.items():
        figures |= {
            f"planes.{key}.{name}": figure for name, figure in _of_runs(CHAINS[key.rpartition(".")[2]], windows)
        }
    return figures


def _of_runs(chain: Chain, windows: Sequence[Window]) -> list[tuple[str, Figure]]:
    """The reader's CPU for a GB only where batches cost little: else what a host uses in any second is most of it."""

    def of(unit: str, value: Callable[[Window], float]) -> Figure:
        return Figure.of([value(one) for one in windows], unit=unit)

    moved = of("s", lambda one: one.cpu_s[READER] / (one.steps * chain.batch_bytes) * GB)
    return [
        *([] if chain.blurs else [("reader_cpu_s_per_gb", moved)]),
        ("examples_per_s", of("examples/s", lambda one: chain.batch_size / one.step_s)),
        ("cpu_ms", of("ms", lambda one: 1e3 * sum(one.cpu_s.values()) / (one.steps * chain.batch_size))),
        ("first_batch_s", of("s", lambda one: one.first_batch_s)),
        ("rank_mb", of("MB", lambda one: one.rss / MB)),
        ("dnn_host_mb", of("MB", lambda one: one.host_bytes[READER] / MB)),
        ("data_host_mb", of("MB", lambda one: one.host_bytes[PREPARES] / MB)),
    ]


SUITE = Suite(
    name="planes",
    does="tf.data service, the feed and Ray with the same pictures on the same cluster, in three sizes of work",
    measures=(*JOB, "benchmarks/planes"),
    options=_options,
    run=_run,
)
