"""One process of a data plane, kept alive: started again at the same port when it dies or falls silent.

At the same address and port a respawned worker takes up its place (a worker at another address is a new one, and the
epoch waits for the old one for ever: TF 2.15.1), and a respawned dispatcher finds its journal.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import JobFailed
from tfhet.messages import Channel, MessageError
from tfhet.messages import server as messages
from tfhet.process import Child, OnLine, describe_exit


@dataclass(frozen=True)
class RestartPolicy:
    """Which deaths are repaired by a restart, and how many are too many."""

    limit: int = 20
    """Maximum number of restarts of one process within `window_s`; one more death is a failure of the job."""
    window_s: float = 60.0
    vain_limit: int = 5
    """Maximum number of restarts in a row before the process served again. A start takes seconds, so a process that
    cannot come back would die too seldom for `limit`."""
    backoff_s: float = 0.1
    """Before the first restart; twice as long after each further death within the window."""
    longest_backoff_s: float = 2.0
    silence_s: float = 10.0
    """Seconds after which a process that serves and is silent (it reports every second) hangs, and is killed."""
    start_s: float = 120.0
    """Seconds that it may be silent before it serves for the first time."""
    restart_s: float = 30.0
    """Seconds that it may be silent before it serves again: what it loads was loaded on this host before."""

    def pause_s(self, deaths: int) -> float:
        """Seconds before the restart after the `deaths`-th death in the window, from 1."""
        return min(self.longest_backoff_s, self.backoff_s * 2.0 ** min(deaths - 1, 16))


@dataclass(frozen=True)
class Started:
    """The process was started, or started again."""

    pid: int


@dataclass(frozen=True)
class Died:
    """The process ended by itself, and is started again."""

    code: int
    """Its exit code; negative for the signal that ended it."""
    cause: str


Happening = Started | Died | messages.Report


class Supervised:
    """A server process, started again when it ends by itself. It reports over a channel (tfhet/messages/server.py).

    observe: receives what happens to the process, and what it reports.
    """

    def __init__(
        self,
        name: str,
        host: str,
        command: Sequence[str],
        env: Mapping[str, str],
        *,
        on_line: OnLine,
        observe: Callable[[Happening], None],
        policy: RestartPolicy | None = None,
        clock: Clock = SYSTEM,
    ):
        self.name = name
        self.restarts = 0
        """How often it was started again."""
        self.ready = asyncio.Event()
        """Set once it serves, for the first time."""
        self._host = host
        self._command = list(command)
        self._env = dict(env)
        self._on_line = on_line
        self._observe = observe
        self._policy = policy or RestartPolicy()
        self._clock = clock
        self._child: Child | None = None
        self._heard_s = 0.0
        self._serves = False
        self._vain = 0
        self._renewing = False
        self._deaths: collections.deque[float] = collections.deque()
        self._running: asyncio.Task[JobFailed] | None = None

    def start(self) -> None:
        """Begins its life; `failure` tells when that is over."""
        self._running = asyncio.create_task(self._live(), name=self.name)

    async def failure(self) -> JobFailed:
        """Returns when it has died before it ever served, or too often."""
        assert self._running is not None
        return await asyncio.shield(self._running)

    def renew(self, command: Sequence[str]) -> None:
        """Ends the process and starts it again with another command, which is no death that counts."""
        self._command = list(command)
        self._renewing = True
        if self._child is not None:
            self._child.kill()

    @property
    def pid(self) -> int | None:
        """Of the process that runs; None while there is none."""
        return self._child.pid if self._child is not None and self._child.code is None else None

    def next_time(self, command: Sequence[str]) -> None:
        """The command with which it is started when it has to be started again."""
        self._command = list(command)

    async def stop(self, grace_s: float) -> None:
        """Ends the process, and its being started again."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        if self._child is not None:
            await self._child.stop(grace_s)
            self._child = None

    async def _live(self) -> JobFailed:
        while True:
            self._heard_s, self._serves = self._clock.monotonic(), False
            self._renewing, command = False, self._command
            channel = Channel(self._took)
            self._child = await Child.start(self.name, command, env=self._env, on_line=self._heard, channel=channel)
            if self._renewing:  # while it was being started, with the command before
                self._child.kill()
            self._observe(Started(self._child.pid))
            silent = asyncio.create_task(self._silence(self._child))
            try:
                code = await self._child.wait()
            finally:
                silent.cancel()
            if self._renewing:
                continue
            end = f"ended by itself ({describe_exit(code, self._child.tail)})"
            if silent.done() and not silent.cancelled():
                end = f"said nothing for {self._longest_silence_s:g} s and was killed"
            now_s = self._clock.monotonic()
            self._deaths.append(now_s)
            while self._deaths[0] < now_s - self._policy.window_s:
                self._deaths.popleft()
            deaths = len(self._deaths)
            often = f", {_ordinal(deaths)} in {self._policy.window_s:g} s" if deaths > 1 else ""
            failed = JobFailed(f"{self.name} on {self._host} {end}{often}", code=code, log_tail=self._child.tail)
            self._vain = 0 if self._serves else self._vain + 1
            if not self.ready.is_set() or deaths > self._policy.limit or self._vain > self._policy.vain_limit:
                return failed
            self.restarts += 1
            self._observe(Died(code, str(failed)))
            await asyncio.sleep(self._policy.pause_s(deaths))

    @property
    def _longest_silence_s(self) -> float:
        """Seconds of silence after which the process hangs, by what it does now."""
        if self._serves:
            return self._policy.silence_s
        return self._policy.restart_s if self.ready.is_set() else self._policy.start_s

    async def _silence(self, child: Child) -> None:
        """Returns after the process has been silent for too long, having killed it."""
        looked_s = self._clock.monotonic()
        while looked_s - self._heard_s < self._longest_silence_s:
            await asyncio.sleep(min(0.5, self._policy.silence_s / 4))
            now_s = self._clock.monotonic()
            if now_s - looked_s > self._policy.silence_s / 2:  # we were stopped: what was said is yet to be read
                self._heard_s = now_s
            looked_s = now_s
        child.kill()

    def _heard(self, line: str) -> None:
        self._heard_s = self._clock.monotonic()
        self._on_line(f"[{self.name}] {line}")

    def _took(self, values: Mapping[str, Any]) -> None:
        self._heard_s = self._clock.monotonic()
        try:
            report = messages.parse(values)
        except MessageError:
            return
        if isinstance(report, messages.Ready):
            self._serves = True
            self.ready.set()
        self._observe(report)


def _ordinal(number: int) -> str:
    """2 -> "for the 2nd time"."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"for the {number}{ending} time"
