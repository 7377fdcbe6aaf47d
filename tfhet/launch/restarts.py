"""Counts the restarts of processes of the data plane in the leader, and whether they help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tfhet.messages import link

VAIN_LIMIT = 12
"""Maximum number of restarts of one process without a batch for any rank in between. `planes.supervised.RestartPolicy`
does not notice a process that dies at its first batch, because it serves for some seconds each time."""


class Restarts:
    def __init__(self, progress: Callable[[], int | None]):
        """progress: returns a number that changes when a rank gets a batch; None if it is unknown."""
        self.count = 0
        self._progress = progress
        self._seen: int | None = None
        self._in_vain: Counter[tuple[str, str]] = Counter()

    def add(self, report: link.Restarted) -> str | None:
        """Counts a restart. Returns why the job cannot continue, or None."""
        self.count += 1
        seen = self._progress()
        if seen is None:
            return None
        if seen != self._seen:
            self._seen = seen
            self._in_vain.clear()
        process = report.host, report.process
        self._in_vain[process] += 1
        if self._in_vain[process] <= VAIN_LIMIT:
            return None
        return (
            f"{report.cause}; it was started again {VAIN_LIMIT} times, and no rank got a batch meanwhile: "
            f"see its lines in the log of {report.host}, and whether that host has enough memory"
        )
