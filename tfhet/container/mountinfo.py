"""What is mounted, as the kernel tells a process: /proc/PID/mountinfo. Source: proc_pid_mountinfo(5)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

OURS = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Mounted:
    """One line of it, with the kernel's escapes (`\\040` for a space) undone."""

    point: str
    """Where it is mounted, as the process sees it."""
    device: str
    """Major and minor number of the file system."""
    root: str
    """The folder of the file system that is mounted."""
    kind: str
    """Of file system."""
    source: str
    options: str
    """Of the file system, with commas between them."""

    @property
    def what(self) -> str:
        """All of it but where."""
        return f"{self.device} {self.root} {self.kind} {self.source} {self.options}"


def mounted(path: Path = OURS) -> list[Mounted]:
    """In the kernel's order; lines that are none are left out. Raises OSError."""
    found = []
    for line in path.read_bytes().decode("utf-8", "surrogateescape").split("\n"):
        where, _, what = line.partition(" - ")
        fields, kind = [[_unescaped(word) for word in part.split(" ")] for part in (where, what)]
        if len(fields) >= 6 and len(kind) >= 3:
            found.append(Mounted(fields[4], fields[2], fields[3], *kind[:3]))
    return found


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), word)
