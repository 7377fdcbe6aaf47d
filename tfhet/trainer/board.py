"""The TensorBoard folder of a training: its metric lines as it goes on, and what each epoch came to."""

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
    """Writes scalars to one folder. Without TensorBoard, and on a disk that is full, it says so once and the training
    goes on."""

    def __init__(self, folder: Path | None, clock: Clock = SYSTEM):
        """folder: None: nothing is written."""
        self._clock = clock
        self._file: ScalarFile | None = None
        if folder is not None:
            try:
                self._file = ScalarFile(folder, clock.wall(), str(os.getpid()))
            except (UsageError, OSError) as error:
                log.warning("nothing is written for TensorBoard: %s", error)

    @classmethod
    def of(cls, given: str, usual: Path, clock: Clock = SYSTEM) -> Board:
        """Of the argument `--tensorboard`: a folder, `off`, or "" for the usual one."""
        return cls(None if given == OFF else Path(given) if given else usual, clock)

    def line(self, line: MetricLine) -> None:
        """The means of a metric line, as `step/ms`, `step/examples_per_s`, `step/wait_pct` and `step/loss`."""
        told = {f"step/{name.removeprefix('step_')}": value for name, value in line.numbers().items()}
        self._add(line.step, {tag: told[tag] for tag in told if tag not in ("step/step", "step/epoch")})

    def epoch(self, step: int, numbers: Mapping[str, float]) -> None:
        """What an epoch came to, each under its own name, at the step that ended it."""
        self._add(step, numbers)

    def close(self) -> None:
        """Ends the file."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                log.warning("the end of what TensorBoard shows is missing: %s", error)

    def _add(self, step: int, values: Mapping[str, float]) -> None:
        if self._file is None:
            return
        try:
            self._file.add(self._clock.wall(), step, values)
            self._file.flush()
        except OSError as error:
            log.warning("nothing more is written for TensorBoard: %s", error)
            self.close()
