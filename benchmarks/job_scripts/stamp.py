"""Lines that a script prints when something happens. The process that reads the line takes the time."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

_LINE = re.compile(r"\[stamp\] (\w+)((?: \w+=[\w.-]+)*)")


def stamp(name: str, **fields: object) -> None:
    """Prints a line such as `[stamp] step step=3 step_ms=20.1`."""
    words = [f"{key}={value}" for key, value in fields.items()]
    # In one write: mpirun puts a prefix before each write, and would tear the line from its end.
    sys.stdout.write(" ".join(["[stamp]", name, *words]) + "\n")
    sys.stdout.flush()


def read(line: str) -> tuple[str, Mapping[str, str]] | None:
    """Returns the name and the fields of the stamp in a line; None if the line has none."""
    found = _LINE.search(line)
    return (found[1], dict(word.split("=", 1) for word in found[2].split())) if found else None
