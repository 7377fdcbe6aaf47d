"""`benchmarks.memory`: the memory of a rank over many steps, with batches of tf.data service and of a feed."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.cluster_runs.observed_job import ObservedJob, new_place
from tfhet.bench.harness import report
from tfhet.bench.suite import Suite
from tfhet.errors import JobFailed, UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record, versions
from tfhet.simulate import ClusterFile, GroupFile
from tfhet.units import MB

SCRIPT = ROOT / "benchmarks" / "job_scripts" / "memory_train.py"
WAYS: Mapping[str, tuple[str, ...]] = {
    "service": ("--data_plane", "tf_service", "--data_host_workers", "1"),
    "feed": ("--data_plane", "feed", "--data_host_processes", "1"),
}
"""Arguments of the launcher, by the way that batches take."""
CLUSTER = ClusterFile("memory", {"data_group": GroupFile(), "dnn_group": GroupFile()})
BATCH_SIZE, SIZE = 16, 16 * 1024
"""Examples of a batch, and bytes of each: 262 kB, so that a step costs little."""
EVERY = 100
LEAST = 10 * EVERY
PART = 10
"""The second and the last of so many parts of a run are compared; in the first one, buffers fill."""
LIMIT_S = 500.0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=1, warmup=0)
    parser.add_argument("--steps", type=int, default=10_000, metavar="N", help="of each run (default %(default)s)")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if options.steps < LEAST:
        raise UsageError(f"--steps {options.steps}: give at least {LEAST}")
    figures: dict[str, Figure] = {}
    kept: dict[str, Any] = {}
    with new_place("memory") as place:
        for number, name in enumerate(WAYS, 1):
            found, duration_s = _measured(name, place / name, options.steps)
            kept[name] = found
            figures |= figures_of(name, found["rss"])
            growth = figures[f"memory.{name}.growth_mb"]
            report(observer, name, number, len(WAYS), [f"{growth.value:+.1f} MB"], duration_s)
    details = {"steps": options.steps, "batch_size": BATCH_SIZE, "example_bytes": SIZE, "every": EVERY, "runs": kept}
    details |= {"peers": versions(("torch", "tensorflow"))}
    return Record.of("memory", figures, details=details, command=command)


def _measured(name: str, place: Path, steps: int) -> tuple[dict[str, Any], float]:
    """The JSON that the script wrote, and the seconds that it ran."""
    given = {"train_script": SCRIPT, "way": name, "steps": steps, "batch_size": BATCH_SIZE, "size": SIZE}
    words = [word for argument, value in given.items() for word in (f"--{argument}", str(value))]
    place.mkdir()
    job = ObservedJob(CLUSTER, [str(ROOT / "scripts/launcher.py"), *WAYS[name], *words], place, max_run_s=LIMIT_S)
    summary = job.run()
    written = list(job.folder.path.glob("hosts/*/output/data/memory.json"))
    if summary.exit_code or not written:
        raise JobFailed(f"{name}: exit code {summary.exit_code}: {summary.cause}")
    return json.loads(written[0].read_text()), summary.duration_s or 0.0


def figures_of(name: str, rss: Sequence[int]) -> dict[str, Figure]:
    """Memory in the second part of a run, in its last one, and the difference, from bytes at every EVERY-th step."""
    size = len(rss) // PART
    early, late = [one / MB for one in rss[size : 2 * size]], [one / MB for one in rss[-size:]]
    return {
        f"memory.{name}.early_mb": Figure.of(early, unit="MB"),
        f"memory.{name}.late_mb": Figure.of(late, unit="MB"),
        f"memory.{name}.growth_mb": Figure.single(statistics.median(late) - statistics.median(early), unit="MB"),
    }


SUITE = Suite(
    name="memory",
    does="memory of a rank over 10,000 steps, reading tf.data service and a feed",
    measures=("tfhet/planes", "tfhet/native", "benchmarks/memory"),
    options=_options,
    run=_run,
)
