"""Lines that say what happens, when it happens: whoever hears them takes the time."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

_LINE = re.compile(r"\[stamp\] (\w+)((?: \w+=[\w.-]+)*)")


def stamp(name: str, **fields: object) -> None:
    """Prints one: `[stamp] step step=3 step_ms=20.1`."""
    words = [f"{key}={value}" for key, value in fields.items()]
    # In one write: mpirun, which puts a prefix before what it gets, would tear the line from its end.
    sys.stdout.write(" ".join(["[stamp]", name, *words]) + "\n")
    sys.stdout.flush()


def read(line: str) -> tuple[str, Mapping[str, str]] | None:
    """(name, fields) of a line that holds a stamp, whatever stands before it; None for any other."""
    found = _LINE.search(line)
    return (found[1], dict(word.split("=", 1) for word in found[2].split())) if found else None
