"""The entry: what `scripts/launcher.py` calls on every host. One launcher, or the starter of several."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Mapping, Sequence

from tfhet.cluster import environment, host_paths, job_name
from tfhet.errors import TfhetError
from tfhet.launch.assignment import Assignment
from tfhet.launch.failure import write_failure
from tfhet.launch.init import LAUNCHER_NAME
from tfhet.launch.launcher import Launcher
from tfhet.launch.local_launchers import LocalLaunchers, ranks_to_start
from tfhet.launch.settings import LaunchSettings
from tfhet.launch.stop import STOP_SIGNALS
from tfhet.process import name_process, outlive_nobody


def main(argv: Sequence[str] | None = None, env: Mapping[str, str] | None = None) -> int:
    """Runs the launcher; the exit code. Wrong use ends it at once, with the reason in the failure file.

    Without `argv` this process is the launcher's own, about to exit: a signal can no longer change its code.
    """
    if argv is None:
        name_process(LAUNCHER_NAME)  # by which PID 1 of the container finds whom to tell of a stop
    env = environment() if env is None else env
    try:
        settings, rest = LaunchSettings.parse(sys.argv[1:] if argv is None else argv)
        ranks = ranks_to_start(env, settings)
        life = (
            LocalLaunchers(ranks, _same(argv), env, settings) if ranks else Launcher(Assignment.of(env, settings), rest)
        )
    except TfhetError as error:
        print(f"[tfhet] error: {error}", file=sys.stderr, flush=True)
        write_failure(host_paths(env).failure, str(error), "the launcher", error.exit_code)
        return error.exit_code
    if argv is None and job_name(env):
        # The SageMaker toolkit dies of SIGTERM and tells us nothing (sagemaker-training-toolkit#125).
        outlive_nobody(signal.SIGTERM)
    return asyncio.run(life.run() if argv is not None else _then_deaf(life.run()))


def _same(argv: Sequence[str] | None) -> list[str]:
    """The command that is this launcher once more."""
    return [sys.executable, *(sys.orig_argv[1:] if argv is None else ["-m", "tfhet.launch", *argv])]


async def _then_deaf(running: Awaitable[int]) -> int:
    """The result, with the signals that stop a launcher ignored from then on: one that comes while Python shuts down
    (who told the chief to stop is still telling the others) would replace the job's exit code by its own."""
    code = await running
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # between the next two lines, too
    for number in STOP_SIGNALS:
        asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    return code
