"""Runs a command with the hooks of `inside`, unchanged in its output, signals and exit code, and writes its record."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.process import describe_exit, die_with
from tfhet.record import RUNS, RunFolder, RunSummary
from tfhet.watching import merge
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
PERIOD_S = 1.0


def new_folder(out: Path | None, name: str, clock: Clock = SYSTEM) -> Path:
    """Returns the folder of a run record: `out`, or `runs/NAME-TIME`. Raises UsageError for one that is not empty."""
    if out is None:
        import datetime

        now = datetime.datetime.fromtimestamp(clock.wall(), datetime.UTC)
        return RUNS / f"{name}-{now:%Y%m%d-%H%M%S}-{os.getpid()}"
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {out} exists and is not an empty folder: name a new one")
    return out


def environment_of(env: Mapping[str, str], notes: Path) -> dict[str, str]:
    """Returns the environment with which each Python process below the command records into the folder `notes`."""
    path = [str(START), *filter(None, [env.get("PYTHONPATH", "")])]
    return {**env, FOLDER_VARIABLE: str(notes.resolve()), "PYTHONPATH": os.pathsep.join(path)}


def watch_command(
    command: Sequence[str], folder: Path, name: str, env: Mapping[str, str], clock: Clock = SYSTEM
) -> tuple[RunSummary, int]:
    """Runs a command to its end and writes its record.

    Args:
        command: Program and arguments.
        folder: New folder of the run record.
        name: Name of the run.
        env: Environment of the command, which is extended.

    Returns:
        The summary, and the exit code of the command: 128 plus its number for a signal, as in a shell.

    Raises:
        UsageError: The folder cannot be written.
    """
    try:
        run = RunFolder(folder).create()
        notes = Path(tempfile.mkdtemp(prefix="notes-", dir=folder))
    except OSError as error:
        raise UsageError(f"--out {folder} cannot be written ({error.strerror}): name another folder") from None
    began_s, usage = clock.wall(), TreeUsage(notes, clock)
    run.write_event(Event("watch.started", began_s, {"command": list(command)}))
    code = _run(command, environment_of(env, notes), usage)
    shown = describe_exit(code) if code else None
    summary = merge.write(
        run,
        notes,
        usage.samples,
        name=name,
        started=began_s,
        duration_s=clock.wall() - began_s,
        exit_code=code if code >= 0 else 128 - code,
        cause=f"the command ended with {shown}" if shown else None,
        watched=usage.facts(),
    )
    errors = notes / merge.ERRORS
    if errors.is_file():
        shutil.copy(errors, run.log_path("watch"))
    shutil.rmtree(notes, ignore_errors=True)
    return summary, code if code >= 0 else 128 - code


def _run(command: Sequence[str], env: Mapping[str, str], usage: TreeUsage) -> int:
    """Runs the command in the foreground; returns its exit code, negative for a signal."""
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
        usage.follow(child.pid)
        while child.poll() is None:
            found = signal.sigtimedwait(watched, PERIOD_S)
            if found is None:
                usage.sample()
            elif found.si_signo != signal.SIGCHLD and found.si_code != FROM_KERNEL:
                with contextlib.suppress(ProcessLookupError):
                    child.send_signal(found.si_signo)
        return child.returncode
    finally:
        while signal.sigtimedwait(watched, 0) is not None:  # those that the command has received
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
