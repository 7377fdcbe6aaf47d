"""The entry: `scripts/launcher.py` calls it on every host.

A host whose ranks no other program started gets a launcher for each: the first one starts launchers of itself, numbered
by the host's place in its group. So a job needs no other starter and no ssh.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Mapping, Sequence

from tfhet import strategies
from tfhet.cluster import Rank, environment, host_paths, identify, job_name, roles
from tfhet.errors import ClusterError, TfhetError
from tfhet.launch.assignment import Assignment, known_roles
from tfhet.launch.init import LAUNCHER_NAME, STOP_SIGNALS
from tfhet.launch.job_result import write_failure
from tfhet.launch.launcher import Launcher
from tfhet.launch.local_launchers import LocalLaunchers
from tfhet.launch.settings import LaunchSettings
from tfhet.process import end_with_parent, name_process
from tfhet.telemetry import gpu_count


def main(argv: Sequence[str] | None = None, env: Mapping[str, str] | None = None) -> int:
    """Runs the launcher and returns the exit code. Wrong use ends it at once, with the reason in the failure file.

    Without `argv` this process is the launcher's own, about to exit: a signal can no longer change its code.
    """
    if argv is None:
        name_process(LAUNCHER_NAME)  # PID 1 of the container finds the launchers by this name when it passes a stop on
    env = environment() if env is None else env
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


async def then_ignore_stops(running: Awaitable[int]) -> int:
    """The result, with the signals that stop a launcher ignored from then on: one that comes while Python shuts down
    would replace the job's exit code by its own."""
    code = await running
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # between the next two lines, too
    for number in STOP_SIGNALS:
        asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    return code


def ranks_to_start(env: Mapping[str, str], settings: LaunchSettings) -> tuple[Rank, ...]:
    """The ranks of this host whose launchers this one has to start; () when it is the rank itself, or on a data host.

    Hosts count in the dnn group's order, as many ranks on each. Raises ClusterError and UsageError.
    """
    identity = identify(env)
    parts = roles(identity, settings.groups, known_roles(settings))
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
    size = len(parts.dnn_hosts) * count
    if size == 1:
        return ()
    first = parts.dnn_hosts.index(identity.current_host) * count
    return tuple(Rank(first + local, size, local, count, "tfhet") for local in range(count))
