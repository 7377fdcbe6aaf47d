"""Requests to stop this launcher, and with it the job: signals, and the death of what started its rank."""

from __future__ import annotations

import asyncio
import signal

from tfhet.launch.assignment import Assignment
from tfhet.launch.job_result import JobResult

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stop:
    """The first request, as a job result in `asked`."""

    def __init__(self, assignment: Assignment):
        """Listens to signals from now on."""
        loop = asyncio.get_running_loop()
        self.asked: asyncio.Future[JobResult] = loop.create_future()
        self._assignment = assignment
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._ask, number, number.name)

    async def watch(self) -> None:
        """Takes the death of what started the ranks for a request, which it cannot send any more."""
        source = self._assignment.source
        if source is not None:
            self._ask(signal.SIGTERM, await source.gone(self._assignment.place))

    def _ask(self, number: signal.Signals, why: str) -> None:
        if not self.asked.done():
            label = self._assignment.place.label
            self.asked.set_result(JobResult(128 + number, f"{label} was told to stop ({why})"))
