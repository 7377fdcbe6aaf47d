"""How a job ended: the code that every launcher exits with, and the cause. The leader decides it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tfhet.errors import JobFailed, TfhetError
from tfhet.process import describe_exit

LOG_LIMIT = 2000
"""Characters of log that travel with a job result: SageMaker shows 1,024 of the failure file."""

IsNoise = Callable[[str], bool]


def no_noise(line: str) -> bool:
    """Takes every line for one that says something."""
    return False


@dataclass(frozen=True)
class JobResult:
    """The code that every launcher exits with, and why."""

    code: int
    cause: str
    """One line; the lines after it are the last ones that the failed process had printed."""

    @classmethod
    def of(cls, code: int, cause: str, log: Iterable[str] = (), is_noise: IsNoise = no_noise) -> JobResult:
        """With the end of `log`, without the lines that are noise."""
        lines = "\n".join(line for line in log if not is_noise(line))[-LOG_LIMIT:]
        return cls(code, f"{' '.join(cause.splitlines())}\n{lines}".rstrip("\n"))

    @classmethod
    def of_error(cls, error: BaseException, where: str, is_noise: IsNoise = no_noise) -> JobResult:
        """What an error of the launcher `where` makes of the job."""
        if isinstance(error, JobFailed):
            return cls.of(_exit_code(error.code) or 1, str(error), error.log_tail, is_noise)
        if isinstance(error, TfhetError):
            return cls.of(error.exit_code, f"{where}: {error}")
        return cls.of(1, f"{where}: {type(error).__name__}: {error}")

    @classmethod
    def of_script(cls, code: int, whose: str, tail: Iterable[str], is_noise: IsNoise = no_noise) -> JobResult:
        """What the end of a script makes of the job. code: negative for a signal; whose: `train.py ended on algo-1,
        rank 0`; tail: the last lines of its log."""
        lines = list(tail)
        cause = f"{whose}: {describe_exit(code, lines)}{_last_line(lines, is_noise)}"
        return cls.of(_exit_code(code), cause, lines, is_noise)

    @property
    def headline(self) -> str:
        """The cause without the log."""
        return self.cause.split("\n", 1)[0]

    @property
    def log(self) -> list[str]:
        """The last lines that the failed process had printed."""
        return self.cause.split("\n")[1:]


def _exit_code(code: int) -> int:
    """A code that a process can exit with: a signal as shells say it, 128 + its number."""
    return code if code >= 0 else 128 - code


def _last_line(tail: Iterable[str], is_noise: IsNoise) -> str:
    """The last line that is not noise, which after a traceback is the error."""
    said = [line.strip() for line in tail if line.strip() and not is_noise(line)]
    return f": {said[-1][:300]}" if said else ""
