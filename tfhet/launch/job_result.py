"""How a job ended: what the chief decides and every launcher exits with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tfhet.errors import JobFailed, TfhetError
from tfhet.planes.tensorflow_noise import is_noise
from tfhet.process import describe_exit

_FOLLOWS = re.compile(r"Horovod has been shut down|HorovodInternalError|Connection (closed|reset) by peer")

LOG_LIMIT = 2000
"""Characters of log that travel with a verdict: SageMaker shows 1,024 of the failure file."""


@dataclass(frozen=True)
class Verdict:
    """The code that every launcher exits with, and why."""

    code: int
    cause: str
    """One line; the lines behind it are the last ones that what failed had printed."""

    @classmethod
    def of(cls, code: int, cause: str, log: Iterable[str] = ()) -> Verdict:
        """With the end of `log`, without the lines that mean nothing."""
        lines = "\n".join(line for line in log if not is_noise(line))[-LOG_LIMIT:]
        return cls(code, f"{' '.join(cause.splitlines())}\n{lines}".rstrip("\n"))

    @classmethod
    def of_error(cls, error: BaseException, where: str) -> Verdict:
        """What an error of the launcher `where` makes of the job."""
        if isinstance(error, JobFailed):
            return cls.of(_exit_code(error.code) or 1, str(error), error.log_tail)
        if isinstance(error, TfhetError):
            return cls.of(error.exit_code, f"{where}: {error}")
        return cls.of(1, f"{where}: {type(error).__name__}: {error}")

    @classmethod
    def of_script(cls, code: int, whose: str, tail: Iterable[str]) -> Verdict:
        """What the end of a script makes of the job. code: negative for a signal; whose: `train.py ended on algo-1,
        rank 0`; tail: the last lines of its log."""
        lines = list(tail)
        return cls.of(_exit_code(code), f"{whose}: {describe_exit(code, lines)}{_last_word(lines)}", lines)

    @property
    def headline(self) -> str:
        """The cause without the log."""
        return self.cause.split("\n", 1)[0]

    @property
    def is_consequence(self) -> bool:
        """Whether this is what becomes of a rank when another one has failed, so that the cause is elsewhere."""
        return _FOLLOWS.search(self.headline) is not None

    @property
    def log(self) -> list[str]:
        """The last lines that what failed had printed."""
        return self.cause.split("\n")[1:]


def _exit_code(code: int) -> int:
    """A code that a process can exit with: a signal as shells say it, 128 + its number."""
    return code if code >= 0 else 128 - code


def _last_word(tail: Iterable[str]) -> str:
    """The last line that says something, which after a traceback is the error."""
    said = [line.strip() for line in tail if line.strip() and not is_noise(line)]
    return f": {said[-1][:300]}" if said else ""
