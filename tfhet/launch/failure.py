"""The failure file: what SageMaker shows as the reason why a job failed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

LIMIT = 1024
"""SageMaker shows so many characters."""


def write_failure(path: Path, cause: str, label: str, code: int, tail: Iterable[str] = ()) -> bool:
    """Writes cause, host and the last log lines, unless a file is there already: the first cause is the true one."""
    head = f"{cause}\n(exit code {code}, seen by {label})\n"
    lines = "\n".join(tail)
    room = LIMIT - len(head)
    text = head + (lines[-room:] if room > 0 else "")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text[:LIMIT])
    except FileExistsError:
        return False
    return True
