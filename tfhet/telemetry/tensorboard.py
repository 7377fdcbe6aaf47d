"""A timeline as scalars for TensorBoard: one TensorBoard run per rank and per host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfhet.record import StepTime, Timeline, UsageSample
from tfhet.telemetry import ScalarFile
from tfhet.units import MIB

Point = tuple[float, int, Mapping[str, float]]
"""Seconds since 1970, step, and value by tag."""


def write(timeline: Timeline, folder: Path) -> list[Path]:
    """Writes one event file per rank (by step) and per host (by seconds since the run's first entry).

    Returns their paths. They lie in the folders `rank-N` and `host-NAME` below `folder`; files of the same names are
    replaced. Raises UsageError when tensorboard is not installed.
    """
    points: dict[str, list[Point]] = defaultdict(list)
    began_s = timeline.began_s
    for step in timeline.steps:
        points[f"rank-{step.rank}"].append((step.at_s + step.dur_s, step.step, dict(_of_step(step))))
    for use in timeline.usage:
        since_s = round(use.at_s + use.dur_s - began_s)
        points[f"host-{use.host.replace('/', '-')}"].append((use.at_s + use.dur_s, since_s, dict(_of_use(use))))
    return [_write(folder / run, found, began_s) for run, found in sorted(points.items())]


def _of_step(step: StepTime) -> Iterator[tuple[str, float]]:
    yield "step/ms", 1e3 * step.dur_s
    yield "step/wait_ms", 1e3 * step.wait_s
    yield "step/copy_ms", 1e3 * step.copy_s
    yield "step/compute_ms", 1e3 * step.compute_s
    if step.allreduce_s is not None:
        yield "step/allreduce_ms", 1e3 * step.allreduce_s


def _of_use(use: UsageSample) -> Iterator[tuple[str, float]]:
    for name, cpus in use.processes.items():
        yield f"cpus/{name}-{use.member}" if name == "launcher" else f"cpus/{name}", cpus
    host = use.machine
    if host is not None:
        yield f"host/{host.counted}_cpus", host.cpus
        yield "host/memory_mib", host.memory_bytes / MIB
        yield "host/received_mib_per_s", host.received_bytes_per_s / MIB
        yield "host/sent_mib_per_s", host.sent_bytes_per_s / MIB
        for number, busy_pct in enumerate(host.gpus_busy_pct):
            yield f"gpu/{number}_busy_pct", busy_pct
        for number, held_bytes in enumerate(host.gpus_memory_bytes):
            yield f"gpu/{number}_memory_mib", held_bytes / MIB


def _write(folder: Path, points: list[Point], began_s: float) -> Path:
    with ScalarFile(folder, began_s, folder.name) as file:
        for at_s, step, values in points:
            file.add(at_s, step, values)
    return file.path
