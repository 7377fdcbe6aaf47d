"""Lines that say what happened when, by the wall clock, which all hosts of one machine share."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from tfhet.clock import SYSTEM, Clock

_LINE = re.compile(r"\[stamp\] (\w+)((?: \w+=[\w.-]+)*)")


def stamp(name: str, clock: Clock = SYSTEM, **fields: object) -> None:
    """Prints one: `[stamp] launcher_ends host=algo-1 at_s=1700000000.123456`."""
    words = [f"{key}={value}" for key, value in fields.items()]
    # In one write: mpirun, which puts a prefix before what it gets, would tear the line from its end.
    sys.stdout.write(" ".join(["[stamp]", name, *words, f"at_s={clock.wall():.6f}\n"]))
    sys.stdout.flush()


def read(line: str) -> tuple[str, Mapping[str, str]] | None:
    """(name, fields) of a line that holds a stamp, whatever stands before it; None for any other."""
    found = _LINE.search(line)
    if found is None:
        return None
    fields = dict(word.split("=", 1) for word in found[2].split())
    return (found[1], fields) if "at_s" in fields else None
