"""The restarts of processes of the data plane, as the leader counts them: how many, and whether they help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tfhet.messages import link

VAIN_LIMIT = 12
"""Maximum number of restarts of one process in a row between which no rank got a batch. A process that dies over its
first batch serves for some seconds each time, so for `planes.supervised.RestartPolicy` no restart is in vain."""


class Restarts:
    def __init__(self, progress: Callable[[], int | None]):
        """progress: any number that is another one once a rank has got a batch; None as long as nothing tells."""
        self.count = 0
        self._progress = progress
        self._seen: int | None = None
        self._in_vain: Counter[tuple[str, str]] = Counter()

    def add(self, report: link.Restarted) -> str | None:
        """Counts one. Returns why the job cannot go on, None where it can."""
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
            f"see what it says in the log of {report.host}, and whether that host has enough memory"
        )
