"""Scalars for TensorBoard: an event file, and a timeline as one TensorBoard run per rank and host."""

from __future__ import annotations

import contextlib
import importlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from tfhet.extras import needed
from tfhet.record import StepTime, Timeline, UsageSample
from tfhet.units import MIB


class ScalarFile:
    """An event file that TensorBoard can read while it is written. Needs only the package tensorboard."""

    def __init__(self, folder: Path, began_s: float, name: str):
        """Creates or replaces `folder`/events.out.tfevents.SECONDS.`name`. began_s: seconds since 1970. Raises OSError,
        and MissingPackage if TensorBoard is not installed."""
        with needed("a file of scalars"):
            self._event: Any = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
            self._summary: Any = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
            records: Any = importlib.import_module("tensorboard.summary.writer.record_writer")
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"events.out.tfevents.{int(began_s):010d}.{name}"
        self._file: IO[bytes] = open(self.path, "wb")  # noqa: SIM115 (closed by close)
        self._records = records.RecordWriter(self._file)
        self._records.write(self._event(wall_time=began_s, file_version="brain.Event:2").SerializeToString())

    def add(self, at_s: float, step: int, values: Mapping[str, float]) -> None:
        """Writes values by tag. at_s: seconds since 1970. Raises OSError."""
        scalars = [self._summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        event = self._event(wall_time=at_s, step=step, summary=self._summary(value=scalars))
        self._records.write(event.SerializeToString())
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def write_scalars(timeline: Timeline, folder: Path) -> list[Path]:
    """Writes one event file per rank (by step) and per host (by seconds since the run's first entry), in the folders
    `rank-N` and `host-NAME` below `folder`. Returns their paths. Raises UsageError if tensorboard is not installed."""
    began_s = timeline.began_s
    points: dict[str, list[tuple[float, int, dict[str, float]]]] = defaultdict(list)
    for step in timeline.steps:
        points[f"rank-{step.rank}"].append((step.at_s + step.dur_s, step.step, dict(_of_step(step))))
    for use in timeline.usage:
        ended_s = use.at_s + use.dur_s
        run = f"host-{use.host.replace('/', '-')}"
        points[run].append((ended_s, round(ended_s - began_s), dict(_of_use(use))))
    written = []
    for run, found in sorted(points.items()):
        with contextlib.closing(ScalarFile(folder / run, began_s, run)) as file:
            for point in found:
                file.add(*point)
        written.append(file.path)
    return written


def _of_step(step: StepTime) -> Iterator[tuple[str, float]]:
    yield "step/ms", 1e3 * step.dur_s
    for name in ("wait", "copy", "compute", "allreduce"):
        if (seconds := getattr(step, f"{name}_s")) is not None:
            yield f"step/{name}_ms", 1e3 * seconds


def _of_use(use: UsageSample) -> Iterator[tuple[str, float]]:
    for name, cpus in use.processes.items():
        yield f"cpus/{name}-{use.member}" if name == "launcher" else f"cpus/{name}", cpus
    if host := use.machine:
        yield f"host/{host.counted}_cpus", host.cpus
        yield "host/memory_mib", host.memory_bytes / MIB
        yield "host/received_mib_per_s", host.received_bytes_per_s / MIB
        yield "host/sent_mib_per_s", host.sent_bytes_per_s / MIB
        for number, busy_pct in enumerate(host.gpus_busy_pct):
            yield f"gpu/{number}_busy_pct", busy_pct
        for number, held_bytes in enumerate(host.gpus_memory_bytes):
            yield f"gpu/{number}_memory_mib", held_bytes / MIB
