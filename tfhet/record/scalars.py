"""A timeline as TensorBoard scalars: a run for each rank and each host. Needs tensorboard, and no TensorFlow."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfhet.errors import UsageError
from tfhet.record.entry import Step, Use
from tfhet.record.timeline import Timeline
from tfhet.units import MIB

Point = tuple[float, int, Mapping[str, float]]
"""Seconds since 1970, step, value by tag."""


def write(timeline: Timeline, folder: Path) -> list[Path]:
    """Writes an event file for each rank (by its steps) and host (by seconds since the run's first entry), in folders
    `rank-N` and `host-NAME` below `folder`; files of the same names are replaced.

    Raises UsageError when tensorboard is not installed.
    """
    points: dict[str, list[Point]] = defaultdict(list)
    began_s = timeline.began_s
    for step in timeline.steps:
        points[f"rank-{step.rank}"].append((step.at_s + step.dur_s, step.step, dict(_of_step(step))))
    for use in timeline.uses:
        since_s = round(use.at_s + use.dur_s - began_s)
        points[f"host-{use.host.replace('/', '-')}"].append((use.at_s + use.dur_s, since_s, dict(_of_use(use))))
    return [_write(folder / run, found, began_s) for run, found in sorted(points.items())]


def _of_step(step: Step) -> Iterator[tuple[str, float]]:
    yield "step/ms", 1e3 * step.dur_s
    yield "step/wait_ms", 1e3 * step.wait_s
    yield "step/copy_ms", 1e3 * step.copy_s
    yield "step/compute_ms", 1e3 * step.compute_s
    if step.allreduce_s is not None:
        yield "step/allreduce_ms", 1e3 * step.allreduce_s


def _of_use(use: Use) -> Iterator[tuple[str, float]]:
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
    try:
        proto = importlib.import_module("tensorboard.compat.proto.event_pb2")
        summary = importlib.import_module("tensorboard.compat.proto.summary_pb2")
        records = importlib.import_module("tensorboard.summary.writer.record_writer")
    except ImportError as error:
        raise UsageError(f"scalars need TensorBoard: pip install tensorboard ({error})") from None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{int(began_s):010d}.{folder.name}"
    with open(path, "wb") as file:
        writer = records.RecordWriter(file)
        writer.write(proto.Event(wall_time=began_s, file_version="brain.Event:2").SerializeToString())
        for at_s, step, values in points:
            scalars = [summary.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
            event = proto.Event(wall_time=at_s, step=step, summary=summary.Summary(value=scalars))
            writer.write(event.SerializeToString())
    return path
