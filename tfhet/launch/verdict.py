"""How a job ended: what the chief decides and every launcher exits with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tfhet.launch.noise import is_noise

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
