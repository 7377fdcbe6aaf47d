"""One process of a data plane, kept alive: restarted at the same port when it dies or falls silent.

At the same address and port a restarted worker takes its former place (a worker at another address is a new one, and
the epoch waits for the old one for ever: TF 2.15.1), and a restarted dispatcher finds its journal.
"""

from __future__ import annotations

import asyncio
import collections
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil

from tfhet.clock import SYSTEM
from tfhet.cluster import claim
from tfhet.errors import JobFailed, NotReady
from tfhet.messages import Channel, rank, server as messages
from tfhet.planes.process import give_up_capabilities
from tfhet.process import Child, OnLine, describe_exit


@dataclass(frozen=True)
class RestartPolicy:
    limit: int = 20
    """Maximum number of restarts of one process within `window_s`; one more death is a failure of the job."""
    window_s: float = 60.0
    vain_limit: int = 5
    """Maximum number of consecutive restarts after which the process never served. A start takes seconds, so such a
    process would die too seldom for `limit`."""
    backoff_s: float = 0.1
    """Seconds before the first restart; twice as long after each further death within the window."""
    longest_backoff_s: float = 2.0
    silence_s: float = 10.0
    """Seconds of silence after which a process that serves, and so reports every second, is killed."""
    stopped_s: float = 10.0  # the same of a stopped one (SIGSTOP)
    start_s: float = 120.0  # before it serves for the first time
    restart_s: float = 30.0  # after a restart, with its files in the page cache

    def pause_s(self, deaths: int) -> float:
        """Seconds before the restart. deaths: in the window, from 1."""
        return min(self.longest_backoff_s, self.backoff_s * 2.0 ** min(deaths - 1, 16))


@dataclass(frozen=True)
class Started:
    pid: int


@dataclass(frozen=True)
class Died:
    """The process ended by itself, and is restarted."""

    code: int
    """Its exit code; negative for the signal that ended it."""
    cause: str


Happening = Started | Died | messages.Report


@dataclass(eq=False)
class Supervised:
    """A server process, restarted when it ends by itself, until `failure` or `stop`. It reports over a channel
    (tfhet/messages/server.py). To be made within a running event loop."""

    name: str
    host: str
    command: Sequence[str]
    """Command of the next start."""
    env: Mapping[str, str]
    on_line: OnLine
    observe: Callable[[Happening], None]
    """Called with what happens to the process, and what it reports."""
    policy: RestartPolicy
    restarts: int = 0
    key: bytes = field(default=b"", repr=False)
    """Key of the data plane, which each process is sent first of all."""

    def __post_init__(self) -> None:
        self.ready = asyncio.Event()
        """Set once it serves, for the first time."""
        self._child: Child | None = None
        self._heard_s = 0.0
        self._serves = False
        self._vain = 0
        self._renewing = False
        self._deaths: collections.deque[float] = collections.deque()
        self._running = asyncio.create_task(self._live(), name=self.name)

    async def failure(self) -> JobFailed:
        """Returns once it has died before it ever served, or too often."""
        return await asyncio.shield(self._running)

    def renew(self, command: Sequence[str]) -> None:
        """Replaces the process by one with another command, which does not count as a death."""
        self.command, self._renewing = command, True
        if self._child is not None:
            self._child.kill()

    @property
    def pid(self) -> int | None:
        """Id of the process; None while none runs."""
        return self._child.pid if self._child is not None and self._child.code is None else None

    async def stop(self, grace_s: float) -> None:
        """Ends the process for good, by SIGKILL after `grace_s` seconds."""
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        if self._child is not None:
            await self._child.stop(grace_s)
            self._child = None

    async def _live(self) -> JobFailed:
        while True:
            self._heard_s, self._serves = SYSTEM.monotonic(), False
            self._renewing, command = False, self.command
            channel = Channel(self._took, messages.Report)
            how: dict[str, Any] = {"env": self.env, "channel": channel, "before_exec": give_up_capabilities}
            self._child = await Child.start(self.name, command, on_line=self._heard, **how)
            if self.key:
                channel.send(rank.Key(self.key.hex()))
            if self._renewing:  # while it was being started, with the command before
                self._child.kill()
            self.observe(Started(self._child.pid))
            silent = asyncio.create_task(self._silence(self._child))
            try:
                code = await self._child.wait()
            finally:
                silent.cancel()
            if self._renewing:
                continue
            end = f"ended by itself ({describe_exit(code, self._child.tail)})"
            if silent.done() and not silent.cancelled():
                end = f"said nothing for {silent.result():g} s and was killed"
            now_s = SYSTEM.monotonic()
            self._deaths.append(now_s)
            while self._deaths[0] < now_s - self.policy.window_s:
                self._deaths.popleft()
            deaths = len(self._deaths)
            often = f", {deaths} times in {self.policy.window_s:g} s" if deaths > 1 else ""
            failed = JobFailed(f"{self.name} on {self.host} {end}{often}", code=code, log_tail=self._child.tail)
            self._vain = 0 if self._serves else self._vain + 1
            if not self.ready.is_set() or deaths > self.policy.limit or self._vain > self.policy.vain_limit:
                return failed
            self.restarts += 1
            self.observe(Died(code, str(failed)))
            await asyncio.sleep(self.policy.pause_s(deaths))

    @property
    def _longest_silence_s(self) -> float:
        if self._serves:
            return self.policy.silence_s
        return self.policy.restart_s if self.ready.is_set() else self.policy.start_s

    async def _silence(self, child: Child) -> float:
        """Kills the process once it has been silent for too long, and returns for how many seconds."""
        looked_s, shortest_s = SYSTEM.monotonic(), min(self.policy.silence_s, self.policy.stopped_s)
        while looked_s - self._heard_s < (limit_s := self._longest_silence_s):
            if self._serves and looked_s - self._heard_s >= (limit_s := shortest_s) and _is_stopped(child.pid):
                break
            await asyncio.sleep(min(0.5, shortest_s / 4))
            now_s = SYSTEM.monotonic()
            if now_s - looked_s > shortest_s / 2:  # this process was stopped, and has reports yet to read
                self._heard_s = now_s
            looked_s = now_s
        child.kill()
        return limit_s

    def _heard(self, line: str) -> None:
        self._heard_s = SYSTEM.monotonic()
        self.on_line(f"[{self.name}] {line}")

    def _took(self, report: messages.Report) -> None:
        self._heard_s = SYSTEM.monotonic()
        if self._renewing:  # the last words of a process that is being replaced: its Ready, too
            return
        if isinstance(report, messages.Ready):
            self._serves = True
            self.ready.set()
        self.observe(report)


def _is_stopped(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:  # it has ended
        return False


class Processes:
    """The server processes of one host, with the claims of their ports."""

    def __init__(self, host: str):
        self.host = host
        self.servers: dict[str, Supervised] = {}
        self._claims: list[socket.socket] = []

    def claim(self, ports: Iterable[int]) -> None:
        """Keeps ports for the processes. Raises UsageError for a port in use."""
        for port in ports:
            self._claims.append(claim(port))

    @property
    def pids(self) -> dict[str, int]:
        """Ids of the running processes, by name."""
        return {name: server.pid for name, server in self.servers.items() if server.pid is not None}

    @property
    def restarts(self) -> int:
        return sum(server.restarts for server in self.servers.values())

    async def failure(self) -> JobFailed:
        """Returns once one of them, at least one, can no longer be kept alive."""
        waits = {asyncio.create_task(server.failure()) for server in self.servers.values()}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        return done.pop().result()

    async def wait_ready(self, deadline_s: float) -> None:
        """Returns once all serve. Raises NotReady after `deadline_s` seconds, and JobFailed when one fails."""
        failed: asyncio.Future[Any] = asyncio.create_task(self.failure())
        ready: asyncio.Future[Any] = asyncio.create_task(self._all_ready())
        try:
            done, _ = await asyncio.wait({ready, failed}, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            failed.cancel()
        if failed in done:
            raise failed.result()
        if ready not in done:
            late = ", ".join(name for name, server in self.servers.items() if not server.ready.is_set())
            raise NotReady(f"{self.host}: {late} did not serve within {deadline_s:g} s")

    async def _all_ready(self) -> None:
        for server in self.servers.values():
            await server.ready.wait()

    async def stop(self, grace_s: float) -> None:
        """Ends all processes side by side, by SIGKILL after `grace_s` seconds."""
        await asyncio.gather(*(server.stop(grace_s) for server in self.servers.values()))
        self.servers.clear()
        while self._claims:
            self._claims.pop().close()
