"""Runs a command with the hooks of `inside`, unchanged in its output, signals and exit code, and writes its record."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.process import describe_exit, die_with
from tfhet.record import RUNS, RunFolder, RunSummary
from tfhet.telemetry import GpuMonitor, gpu_count
from tfhet.watching import merge
from tfhet.watching.live import LiveTotals
from tfhet.watching.usage import TreeUsage

FOLDER_VARIABLE = "TFHET_WATCH"
"""Variable with the folder in which the processes of the command write their notes."""
START = Path(__file__).parent / "inside" / "start"
"""Folder of the `sitecustomize` that Python imports at its start."""
NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes of a shell for a command that does not exist, and for a file that cannot be executed."""
FROM_KERNEL = 0x80
"""`si_code` of a signal that a terminal sends: its whole process group has received it."""
_FORWARDED = {getattr(signal, f"SIG{name}") for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "CONT", "WINCH")}
FIRST_S, PERIOD_S = 0.1, 1.0
"""Seconds before the first sample of memory and CPUs, and between two later ones; the time between them doubles."""


def new_folder(out: Path | None, name: str) -> Path:
    """Returns the folder of a run record: `out`, or `runs/NAME-TIME`. Raises UsageError for one that is not empty."""
    if out is None:
        import datetime

        now = datetime.datetime.fromtimestamp(SYSTEM.wall(), datetime.UTC)
        return RUNS / f"{name}-{now:%Y%m%d-%H%M%S}-{os.getpid()}"
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {out} exists and is not an empty folder: name a new one")
    return out


def environment_of(env: Mapping[str, str], notes: Path) -> dict[str, str]:
    """Returns the environment with which each Python process below the command records into the folder `notes`."""
    path = [str(START), *filter(None, [env.get("PYTHONPATH", "")])]
    return {**env, FOLDER_VARIABLE: str(notes.resolve()), "PYTHONPATH": os.pathsep.join(path)}


class WatchedCommand:
    """A command that runs with the hooks, and its record."""

    def __init__(self, command: Sequence[str], folder: Path, name: str, clock: Clock = SYSTEM):
        """Makes the folder of the record.

        Args:
            command: Program and arguments.
            folder: New or empty folder of the run record.
            name: Name of the run.

        Raises:
            UsageError: The folder cannot be written.
        """
        self._command, self._name, self._clock = command, name, clock
        try:
            self._run = RunFolder(folder).create()
            self._notes = Path(tempfile.mkdtemp(prefix="notes-", dir=folder))
        except OSError as error:
            raise UsageError(f"--out {folder} cannot be written ({error.strerror}): name another folder") from None
        self._usage, self._live = TreeUsage(self._notes, clock), LiveTotals(self._run, self._notes, clock)
        self._began_s, self._code = clock.wall(), 0
        self._env: Mapping[str, str] = {}

    def run(self, env: Mapping[str, str]) -> int:
        """Runs the command to its end.

        Args:
            env: Environment of the command, which is extended.

        Returns:
            Its exit code: 128 plus its number for a signal, as in a shell.

        Raises:
            UsageError: The command cannot be executed. Its folder is removed.
        """
        self._env = env
        try:
            self._run.write_event(Event("watch.started", self._began_s, {"command": list(self._command)}))
            self._code = run_in_foreground(self._command, environment_of(env, self._notes), self._follow, self._sample)
        except UsageError:
            with contextlib.suppress(OSError):
                self._run.events_path.unlink(missing_ok=True)
                for path in (self._notes, self._run.logs_path, self._run.path):
                    path.rmdir()
            raise
        return self._code if self._code >= 0 else 128 - self._code

    def _follow(self, pid: int) -> None:
        self._usage.follow(pid, GpuMonitor().start() if gpu_count(self._env) else None)

    def _sample(self) -> None:
        self._usage.sample()
        self._live.write()

    def write(self) -> RunSummary:
        """Writes the record, and removes the notes. Raises OSError."""
        shown = describe_exit(self._code) if self._code else None
        summary = merge.write(
            self._run,
            self._notes,
            self._usage.samples,
            name=self._name,
            started=self._began_s,
            duration_s=self._clock.wall() - self._began_s,
            exit_code=self._code if self._code >= 0 else 128 - self._code,
            cause=f"the command ended with {shown}" if shown else None,
            watched=self._usage.facts(),
        )
        self._live.remove()
        shutil.rmtree(self._notes, ignore_errors=True)
        return summary


def run_in_foreground(
    command: Sequence[str],
    env: Mapping[str, str],
    follow: Callable[[int], None] = lambda pid: None,
    sample: Callable[[], None] = lambda: None,
) -> int:
    """Runs a command that gets all signals of this process.

    Args:
        command: Program and arguments.
        env: Its environment.
        follow: Receives the process id.
        sample: Called about once a second.

    Returns:
        The exit code; negative for a signal.

    Raises:
        UsageError: The command cannot be executed.
    """
    watched = _FORWARDED | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        child = subprocess.Popen(
            command, env=dict(env), preexec_fn=functools.partial(die_with, os.getpid(), signal.SIGTERM, unblock)
        )
    except FileNotFoundError:
        raise UsageError(f"{command[0]}: there is no such command: put the whole command after --") from None
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be executed ({error.strerror}): use `python {command[0]}`") from None
    else:
        follow(child.pid)
        period_s = FIRST_S
        while child.poll() is None:
            found = signal.sigtimedwait(watched, period_s)
            if found is None:
                sample()
                period_s = min(PERIOD_S, 2 * period_s)
            elif found.si_signo != signal.SIGCHLD and found.si_code != FROM_KERNEL:
                with contextlib.suppress(ProcessLookupError):
                    child.send_signal(found.si_signo)
        return child.returncode
    finally:
        while signal.sigtimedwait(watched, 0) is not None:  # those that the command has received
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
