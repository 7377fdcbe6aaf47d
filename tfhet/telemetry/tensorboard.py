"""Scalars for TensorBoard: a file of them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from tfhet.errors import UsageError


class ScalarFile:
    """An event file that TensorBoard can read while it is being written. Needs the package tensorboard alone."""

    def __init__(self, folder: Path, began_s: float, name: str):
        """Creates `folder`/events.out.tfevents.SECONDS.`name`, or replaces it. began_s: seconds since 1970.

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
        """Writes values by tag. at_s: seconds since 1970. Raises OSError."""
        scalars = [self._summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        event = self._event(wall_time=at_s, step=step, summary=self._summary(value=scalars))
        self._records.write(event.SerializeToString())
        self._file.flush()

    def close(self) -> None:
        self._file.close()
