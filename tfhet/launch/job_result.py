"""The job result, which the leader decides: the exit code of all launchers, and the cause, also in a file."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfhet.clock import SYSTEM
from tfhet.cluster import HostPaths
from tfhet.errors import JobFailed, TfhetError
from tfhet.process import describe_exit
from tfhet.record import STOP_CODES, TIMELINE_FOLDER, RunFolder
from tfhet.report import printable

STOPPED_CODES = frozenset({0, *STOP_CODES})
"""Exit codes of a script that ended properly after a request to stop."""
LOG_LIMIT = 2000
FAILURE_LIMIT = 1024
"""Characters of the failure file that SageMaker shows."""
STARTS_WITHIN_S = 10.0
"""Maximum seconds between the starts of the launchers of one host."""


@dataclass(frozen=True)
class JobResult:
    code: int
    cause: str
    """One line, followed by the last lines of the failed process."""

    @classmethod
    def of(cls, code: int, cause: str, log: Iterable[str] = ()) -> JobResult:
        """Makes a result with the end of `log`."""
        lines = "\n".join(map(printable, log))[-LOG_LIMIT:]
        return cls(code, f"{' '.join(map(printable, cause.splitlines()))}\n{lines}".rstrip("\n"))

    @classmethod
    def of_error(cls, error: BaseException, where: str, is_noise: Callable[[str], bool]) -> JobResult:
        """The result of a job that fails because of an error in the launcher `where`."""
        if isinstance(error, JobFailed):
            tail = (line for line in error.log_tail if not is_noise(line))
            return cls.of(_exit_code(error.code) or 1, str(error), tail)
        if isinstance(error, TfhetError):
            return cls.of(error.exit_code, f"{where}: {error}")
        return cls.of(1, f"{where}: {type(error).__name__}: {error}")

    @classmethod
    def of_script(cls, code: int, whose: str, error: str, tail: Sequence[str]) -> JobResult:
        """The result of a job that ends with a script. code: negative for a signal; whose: `train.py ended on algo-1,
        rank 0`; error: result of `ErrorFinder.error`; tail: the last lines of its log, without noise."""
        cause = f"{whose}: {describe_exit(code, [*tail, error])}{f': {error}' if error else ''}"
        return cls.of(_exit_code(code), cause, tail)

    def plus(self, words: str) -> JobResult:
        """The same result with `words` at the end of its first line."""
        return JobResult.of(self.code, self.headline + words, self.log)

    @property
    def headline(self) -> str:
        return self.cause.split("\n", 1)[0]

    @property
    def log(self) -> list[str]:
        return self.cause.split("\n")[1:]


def _exit_code(code: int) -> int:
    """A valid exit code: for a signal 128 + its number, as in shells."""
    return code if code >= 0 else 128 - code


def forget_earlier_job(paths: HostPaths, began_s: float) -> None:
    """Removes the record and the failure file of an earlier job. began_s: as in `write_failure`."""
    record = RunFolder(paths.output_data / "tfhet")
    shutil.rmtree(record.path / TIMELINE_FOLDER, ignore_errors=True)
    of_all = (paths.failure, *record.logs_path.glob("*.log"))  # all launchers of this host write them
    for path in (record.summary_path, record.events_path, record.report_path, *of_all):
        with contextlib.suppress(OSError):
            if path not in of_all or path.stat().st_mtime < began_s - STARTS_WITHIN_S:
                path.unlink()


def write_failure(
    path: Path, cause: str, label: str, code: int, tail: Iterable[str] = (), began_s: float | None = None
) -> bool:
    """Writes the failure file, unless this job has one: the first cause is the true one. Raises nothing.

    Args:
        path: The file. It is not written if the base directory of the job does not exist.
        label: Launcher that reports the failure.
        tail: Last lines of the failed process.
        began_s: Start of this launcher on the wall clock (default: now); a file that is STARTS_WITHIN_S older belongs
            to an earlier job.

    Returns whether the file was written.
    """
    head = f"{cause}\n(exit code {code}, seen by {label})\n"
    room = max(0, FAILURE_LIMIT - len(head))
    lines = "\n".join(map(printable, tail))
    text = head + lines[max(0, len(lines) - room) :]
    try:
        if path.parent.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
        began_s = SYSTEM.wall() if began_s is None else began_s
        if path.exists() and path.stat().st_mtime < began_s - STARTS_WITHIN_S:
            path.unlink()
        with open(path, "x", encoding="utf-8", errors="replace") as file:
            file.write(text[:FAILURE_LIMIT])
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):  # an empty file would be a cause without a text
            with contextlib.suppress(OSError):
                path.unlink()
        return False
    return True
