"""The TensorBoard folder of a training: its metric lines, and the results of each epoch."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import UsageError
from tfhet.messages import MetricLine
from tfhet.telemetry import ScalarFile

OFF = "off"
log = logging.getLogger("tfhet")


class Board:
    """Writes scalars to one folder. Without TensorBoard, or on a full disk, it logs that once and does nothing more."""

    def __init__(self, given: str, usual: Path, clock: Clock = SYSTEM):
        """given: the argument `--tensorboard`: a folder, `off`, or "" for the usual one."""
        self._clock = clock
        self._file: ScalarFile | None = None
        if given != OFF:
            folder = Path(given) if given else usual
            try:
                self._file = ScalarFile(folder, clock.wall(), str(os.getpid()))
            except (UsageError, OSError) as error:
                log.warning("nothing is written for TensorBoard: %s", error)

    def line(self, line: MetricLine) -> None:
        """Adds the means of a metric line, as `step/ms`, `step/examples_per_s`, `step/wait_pct` and `step/loss`."""
        numbers = {f"step/{name.removeprefix('step_')}": value for name, value in line.numbers().items()}
        self.add(line.step, {tag: value for tag, value in numbers.items() if tag not in ("step/step", "step/epoch")})

    def add(self, step: int, values: Mapping[str, float]) -> None:
        if self._file is not None:
            try:
                self._file.add(self._clock.wall(), step, values)
            except OSError as error:
                log.warning("nothing more is written for TensorBoard: %s", error)
                self.close()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                log.warning("the end of what TensorBoard shows is missing: %s", error)
