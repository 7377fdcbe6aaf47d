"""The failure file: what SageMaker shows as the reason why a job failed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

LIMIT = 1024
"""SageMaker shows so many characters."""


def write_failure(path: Path, cause: str, label: str, code: int, tail: Iterable[str] = ()) -> bool:
    """Writes cause, host and the last log lines, unless a file is there already: the first cause is the true one.

    Whether it was written. Never raises: the exit code must not be lost over it. Nothing is written where there is no
    base directory, which is so on a machine that SageMaker has not laid out.
    """
    head = f"{cause}\n(exit code {code}, seen by {label})\n"
    lines = "\n".join(tail)
    room = LIMIT - len(head)
    text = head + (lines[-room:] if room > 0 else "")
    try:
        if path.parent.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
        with open(path, "x", encoding="utf-8", errors="replace") as file:
            file.write(text[:LIMIT])
    except OSError:
        return False
    return True
