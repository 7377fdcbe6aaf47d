"""TensorBoard's scalars: of a training as it goes on, and of a timeline, a run for each rank and each host.

Needs the package tensorboard alone.
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from tfhet.errors import UsageError
from tfhet.record.entry import Step, Use
from tfhet.record.timeline import Timeline
from tfhet.units import MIB

Point = tuple[float, int, Mapping[str, float]]
"""Seconds since 1970, step, value by tag."""


class ScalarFile:
    """One event file, which TensorBoard can read while it is being written."""

    def __init__(self, folder: Path, began_s: float, name: str):
        """Begins `folder`/events.out.tfevents.SECONDS.`name`, in place of one of that name; began_s: since 1970.

        Raises UsageError when tensorboard is not installed, and OSError.
        """
        try:
            self._event: Any = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
            self._summary: Any = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
            records: Any = importlib.import_module("tensorboard.summary.writer.record_writer")
        except ImportError as error:
            raise UsageError(f"scalars need TensorBoard: pip install tensorboard ({error})") from None
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"events.out.tfevents.{int(began_s):010d}.{name}"
        self._file: IO[bytes] = open(self.path, "wb")  # noqa: SIM115 (closed by close)
        self._records = records.RecordWriter(self._file)
        self._records.write(self._event(wall_time=began_s, file_version="brain.Event:2").SerializeToString())

    def add(self, at_s: float, step: int, values: Mapping[str, float]) -> None:
        """Values by tag; at_s: seconds since 1970. Raises OSError."""
        scalars = [self._summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        event = self._event(wall_time=at_s, step=step, summary=self._summary(value=scalars))
        self._records.write(event.SerializeToString())

    def flush(self) -> None:
        """Brings what was added to the file. Raises OSError."""
        self._file.flush()

    def close(self) -> None:
        """Raises OSError."""
        self._file.close()

    def __enter__(self) -> ScalarFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


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
    with ScalarFile(folder, began_s, folder.name) as file:
        for at_s, step, values in points:
            file.add(at_s, step, values)
    return file.path
