"""The launchers of one host: where its ranks have no source, a launcher starts launchers of itself, one for each.

So a job needs no other launcher and no ssh: every host is started alike, once, and numbers its ranks by its place in
the group.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from tfhet import strategies
from tfhet.cluster import Rank, host_paths, identify, roles
from tfhet.errors import ClusterError
from tfhet.launch.assignment import known
from tfhet.launch.failure import write_failure
from tfhet.launch.settings import LaunchSettings
from tfhet.launch.stop import STOP_SIGNALS
from tfhet.process import Child, describe_exit
from tfhet.telemetry import gpu_count

STOP_GRACE_S = 28.0
"""From SIGTERM to SIGKILL, for launchers: a little more than a script's checkpoint and the goodbye take."""
PATIENCE_S = 5.0
"""Extra seconds, beyond the lease, before the remaining launchers of a host are killed."""


def ranks_to_start(env: Mapping[str, str], settings: LaunchSettings) -> tuple[Rank, ...]:
    """The ranks of this host whose launchers this one has to start; () when it is the rank itself, or on a data host.

    Hosts in the dnn group's order, as many ranks on each. Raises ClusterError and UsageError.
    """
    identity = identify(env)
    parts = roles(identity, settings.groups, known(settings))
    if not parts.current.trains:
        return ()
    rank, count = strategies.rank_of(env, settings.strategy), settings.processes_per_host
    if rank is not None:
        source = strategies.source_of(rank, settings.strategy)
        if not source.own and count not in (0, rank.local_size):
            raise ClusterError(
                f"--processes_per_host {count}, and {source.starter} started {rank.local_size} on "
                f"{identity.current_host}; omit it where something else starts the ranks"
            )
        return ()
    count = count or max(1, gpu_count(env))
    hosts = parts.dnn_hosts
    if len(hosts) * count == 1:
        return ()
    first = hosts.index(identity.current_host) * count
    return tuple(Rank(first + local, len(hosts) * count, local, count, "tfhet") for local in range(count))


class LocalLaunchers:
    """The launchers of one host. Their lines come through as they are."""

    def __init__(self, ranks: Sequence[Rank], command: Sequence[str], env: Mapping[str, str], settings: LaunchSettings):
        self._ranks = tuple(ranks)
        self._command = list(command)
        self._env = dict(env)
        self._host = identify(env).current_host
        self._children: dict[int, Child] = {}
        self._stopped = asyncio.Event()
        self._failed = 0
        """The exit code for what no launcher could tell."""
        # When the chief has decided, it may stay for hosts that are still coming up, and tell them.
        chief_s = settings.ready_timeout_s if ranks[0].rank == 0 else 0.0
        self._patience_s = settings.lease_s + PATIENCE_S
        self._chiefs_patience_s = self._patience_s + chief_s

    async def run(self) -> int:
        """Starts them and lives until all have ended; the worst of their exit codes, or of the one that crashed."""
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._stopped.set)
        numbers = ", ".join(str(rank.rank) for rank in self._ranks)
        _say(f"[{self._host}] nobody gave this host's processes a rank: starts {numbers} of {self._ranks[0].size}")
        try:
            for rank in self._ranks:
                await self._start(rank)
            await self._watch()
        except OSError as error:
            self._fail(f"{self._host} cannot start the launcher of rank {rank.rank}: {error}", 1)
        finally:
            codes = await asyncio.gather(*(child.stop(STOP_GRACE_S) for child in self._children.values()))
        return self._failed or max(code if code >= 0 else 128 - code for code in codes)

    async def _start(self, rank: Rank) -> None:
        env = {**self._env, **rank.to_env(), "PYTHONUNBUFFERED": "1"}
        self._children[rank.rank] = await Child.start(
            f"rank {rank.rank}", self._command, env=env, on_line=_say, when_orphaned=signal.SIGTERM
        )

    async def _watch(self) -> None:
        """Returns when all launchers have ended, or are to be ended: told to stop, or too long after the first."""
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
        """What to do about a launcher that has ended: how long the others may stay."""
        if code >= 0 or self._stopped.is_set():  # it has said why, and ends when the job does
            return self._chiefs_patience_s
        cause = f"the launcher of rank {rank} on {self._host} ended by {describe_exit(code, self._children[rank].tail)}"
        self._fail(cause, 128 - code)
        return self._patience_s

    def _fail(self, cause: str, code: int) -> None:
        self._failed = self._failed or code
        _say(f"[{self._host}] {cause}")
        write_failure(host_paths(self._env).failure, cause, self._host, code)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # who reads our log may be gone before us
        print(line, flush=True)
