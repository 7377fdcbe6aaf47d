"""The entry point of a launcher, which `scripts/launcher.py` calls on every host.

If no other program has started the ranks of a host, its launcher starts one launcher per rank: a job needs no SSH.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import sys
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from tfhet import strategies
from tfhet.clock import SYSTEM
from tfhet.cluster import Rank, environment, host_paths, identify, job_name
from tfhet.control import SECRET_VARIABLE, new_secret
from tfhet.errors import ClusterError, TfhetError
from tfhet.launch.assignment import Assignment, parts_of
from tfhet.launch.init import LAUNCHER_NAME, STOP_SIGNALS
from tfhet.launch.job_result import write_failure
from tfhet.launch.launcher import Launcher
from tfhet.launch.output import line_writer
from tfhet.launch.settings import LaunchSettings
from tfhet.process import Child, describe_exit, end_with_parent, name_process
from tfhet.standard_streams import open_standard_streams
from tfhet.telemetry import gpu_count

STOP_GRACE_S = 28.0
"""Seconds from SIGTERM to SIGKILL for launchers: enough for a script's checkpoint and the end of the link."""
PATIENCE_S = 5.0
"""Extra seconds, beyond the lease, before the remaining launchers of a host are killed."""


def main(argv: Sequence[str] | None = None, env: Mapping[str, str] | None = None) -> int:
    """Runs the launcher and returns the exit code. Wrong use ends it at once, with the reason in the failure file.
    Without `argv` it is this whole process, which exits afterwards: later signals must not change its code."""
    if argv is None:
        open_standard_streams()
        name_process(LAUNCHER_NAME)  # PID 1 of the container passes a stop on to processes with this name
    env = environment() if env is None else env
    _forget_failure(env)
    try:
        settings, rest = LaunchSettings.parse(sys.argv[1:] if argv is None else argv)
        ranks = ranks_to_start(env, settings)
        again = [sys.executable, *(sys.orig_argv[1:] if argv is None else ["-m", "tfhet.launch", *argv])]
        life = LocalLaunchers(ranks, again, env, settings) if ranks else Launcher(Assignment.of(env, settings), rest)
    except TfhetError as error:
        print(f"[tfhet] error: {error}", file=sys.stderr, flush=True)
        write_failure(host_paths(env).failure, str(error), "the launcher", error.exit_code)
        return error.exit_code
    if argv is None and job_name(env):
        # The SageMaker toolkit dies of SIGTERM and does not pass it on (sagemaker-training-toolkit#125).
        end_with_parent(signal.SIGTERM)
    return asyncio.run(life.run() if argv is not None else then_ignore_stops(life.run()))


def _forget_failure(env: Mapping[str, str]) -> None:
    """Removes the failure file of an earlier job, unless other launchers on this host may have written it."""
    with contextlib.suppress(TfhetError, OSError):
        if strategies.rank_of(env) is None:
            host_paths(env).failure.unlink(missing_ok=True)


async def then_ignore_stops(running: Awaitable[int]) -> int:
    """Returns the result. A stop signal while Python shuts down would change the exit code, so they are ignored."""
    code = await running
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # between the next two lines, too
    for number in STOP_SIGNALS:
        asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    return code


def ranks_to_start(env: Mapping[str, str], settings: LaunchSettings) -> tuple[Rank, ...]:
    """The ranks of this host whose launchers this one starts; () if it is a rank itself, or on a data host. Ranks are
    numbered host by host, in the order of the dnn group. Raises ClusterError and UsageError."""
    identity = identify(env)
    parts = parts_of(identity, settings)
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
    usual = None if settings.strategy == strategies.AUTO else strategies.get(settings.strategy).ranks_per_host
    count = count or usual or max(1, gpu_count(env))
    size = len(parts.dnn_hosts) * count
    if size == 1:
        return ()
    first = parts.dnn_hosts.index(identity.current_host) * count
    return tuple(Rank(first + local, size, local, count, "tfhet") for local in range(count))


class LocalLaunchers:
    """The launchers of one host. It prints their lines; equal lines of several launchers once."""

    def __init__(self, ranks: Sequence[Rank], command: Sequence[str], env: Mapping[str, str], settings: LaunchSettings):
        identity = identify(env)
        alone = sum(len(group.hosts) for group in identity.cluster.groups) == 1  # no other host needs it
        self._env = {**({SECRET_VARIABLE: new_secret()} if alone else {}), **env}
        self._ranks, self._command = tuple(ranks), list(command)
        self._host = identity.current_host
        self._children: dict[int, Child] = {}
        self._lines, self._began_s = line_writer(gathers=True), SYSTEM.wall()
        self._stopped = asyncio.Event()
        self._failed = 0
        """Exit code of a failure that no launcher could report, or 0."""
        self._patience_s = settings.lease_s + PATIENCE_S
        # A leader may stay after its decision, for hosts that are still starting.
        stays_s = settings.ready_timeout_s if ranks[0].rank == 0 else 0.0
        self._patience_with_leader_s = self._patience_s + stays_s

    async def run(self) -> int:
        """Runs the launchers to their end. Returns the largest exit code, or the code of a launcher that crashed."""
        for number in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._stopped.set)
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
        """Returns if all launchers have ended, on a request to stop, or some time after the first end."""
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
        """Reports the crash of a launcher. Returns the seconds that the others may still run."""
        if code >= 0 or self._stopped.is_set():  # it has reported the cause
            return self._patience_with_leader_s
        cause = f"the launcher of rank {rank} on {self._host} ended by {describe_exit(code, self._children[rank].tail)}"
        self._fail(cause, 128 - code)
        return self._patience_s

    def _fail(self, cause: str, code: int) -> None:
        self._failed = self._failed or code
        self._lines.put(f"[{self._host}] {cause}")
        write_failure(host_paths(self._env).failure, cause, self._host, code, began_s=self._began_s)
