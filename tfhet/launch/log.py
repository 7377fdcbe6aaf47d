"""What one launcher prints: lines with its host in front, and the metric lines that CloudWatch reads."""

from __future__ import annotations

import contextlib
import sys

from tfhet.clock import SYSTEM
from tfhet.launch.assignment import Assignment
from tfhet.launch.metrics import labels
from tfhet.messages import MetricLine
from tfhet.telemetry import emf_line


class Log:
    """Standard output of one launcher. Nothing raises when its reader is gone."""

    def __init__(self, assignment: Assignment):
        self._assignment = assignment

    def say(self, line: str) -> None:
        """Writes one line, with the host in front, unless it is noise."""
        if not self._assignment.is_noise(line):
            _print(f"[{self._assignment.place.label}] {line}")

    def write_emf(self, line: MetricLine) -> None:
        """Writes the numbers of a metric line for CloudWatch, where the settings ask for it. CloudWatch wants a line of
        JSON alone, so no host stands in front."""
        namespace = self._assignment.settings.emf_namespace
        if namespace:
            _print(emf_line(namespace, labels(self._assignment.place), line, SYSTEM.wall()))


def _print(line: str) -> None:
    with contextlib.suppress(OSError):  # the reader of our log may end before us
        # In one write: a program that puts a prefix before what it reads would tear the line from its end.
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
