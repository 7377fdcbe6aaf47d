"""The launchers of one host, one a rank, and what they leave when one of them crashes."""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from tfhet.clock import SYSTEM
from tfhet.cluster import Rank, host_paths, identify
from tfhet.launch.init import STOP_SIGNALS
from tfhet.launch.job_result import write_failure
from tfhet.launch.output import line_writer
from tfhet.launch.settings import LaunchSettings
from tfhet.process import Child, describe_exit

STOP_GRACE_S = 28.0
"""Seconds from SIGTERM to SIGKILL for launchers: a little more than a script's checkpoint and the end of the link."""
PATIENCE_S = 5.0
"""Extra seconds, beyond the lease, before the remaining launchers of a host are killed."""


class LocalLaunchers:
    """The launchers of one host. Their lines come through; those that several print at a time, once."""

    def __init__(self, ranks: Sequence[Rank], command: Sequence[str], env: Mapping[str, str], settings: LaunchSettings):
        self._ranks, self._command, self._env = tuple(ranks), list(command), dict(env)
        self._host = identify(env).current_host
        self._children: dict[int, Child] = {}
        self._lines, self._began_s = line_writer(gathers=True), SYSTEM.wall()
        self._stopped = asyncio.Event()
        self._failed = 0
        """The exit code for a failure that no launcher could report."""
        self._patience_s = settings.lease_s + PATIENCE_S
        # The leader that has decided may stay for hosts that are still starting, so that they hear of it.
        stays_s = settings.ready_timeout_s if ranks[0].rank == 0 else 0.0
        self._patience_with_leader_s = self._patience_s + stays_s

    async def run(self) -> int:
        """Starts them and returns once all have ended: the worst of their exit codes, or that of one that crashed."""
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._stopped.set)
        numbers = ", ".join(str(rank.rank) for rank in self._ranks)
        self._lines.put(f"[{self._host}] starts the launchers of ranks {numbers} of {self._ranks[0].size}")
        try:
            for rank in self._ranks:
                env = {**self._env, **rank.to_env(), "PYTHONUNBUFFERED": "1"}
                self._children[rank.rank] = await Child.start(
                    f"rank {rank.rank}", self._command, env=env, on_line=self._lines.put, when_orphaned=signal.SIGTERM
                )
            await self._watch()
        except OSError as error:
            self._fail(f"{self._host} cannot start the launcher of rank {rank.rank}: {error}", 1)
        finally:
            codes = await asyncio.gather(*(child.stop(STOP_GRACE_S) for child in self._children.values()))
            self._lines.close()
        return self._failed or max(code if code >= 0 else 128 - code for code in codes)

    async def _watch(self) -> None:
        """Returns when all launchers have ended, on a request to stop, or too long after the first one has ended."""
        stopped = asyncio.create_task(self._stopped.wait())
        ends = {asyncio.create_task(child.wait()): rank for rank, child in self._children.items()}
        left: set[asyncio.Task[Any]] = set(ends)
        loop = asyncio.get_running_loop()
        until_s = math.inf
        while left and not stopped.done() and loop.time() < until_s:
            limit_s = None if until_s == math.inf else until_s - loop.time()
            done, left = await asyncio.wait({*left, stopped}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            left.discard(stopped)
            for end in done - {stopped}:
                until_s = min(until_s, loop.time() + self._ended(ends[end], end.result()))
        for task in (stopped, *left):
            task.cancel()
        await asyncio.gather(stopped, *left, return_exceptions=True)

    def _ended(self, rank: int, code: int) -> float:
        """Reports the crash of a launcher; returns the seconds that the others may stay."""
        if code >= 0 or self._stopped.is_set():  # it has said why, and ends when the job does
            return self._patience_with_leader_s
        cause = f"the launcher of rank {rank} on {self._host} ended by {describe_exit(code, self._children[rank].tail)}"
        self._fail(cause, 128 - code)
        return self._patience_s

    def _fail(self, cause: str, code: int) -> None:
        self._failed = self._failed or code
        self._lines.put(f"[{self._host}] {cause}")
        write_failure(host_paths(self._env).failure, cause, self._host, code, began_s=self._began_s)
