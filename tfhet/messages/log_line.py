"""The grammar of the lines of a log that programs read: `[tfhet] KIND key=value key="another value"`.

    write("restart", {"process": "worker-1", "code": -9})     # [tfhet] restart process=worker-1 code=-9
    read("[algo-1] [tfhet] restart process=worker-1 code=-9") # ("restart", {"process": "worker-1", "code": "-9"})

Whatever stands before the mark does no harm: a host's name, a tag of mpirun's, a time. All other lines of a log are for
people, and may be worded anew at any time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

MARK = "[tfhet]"
_START = re.compile(r"\[tfhet\] (?:([a-z_]{1,20}(?: [a-z_]{1,20})?) )?(?=[a-z][\w.]*=)", re.ASCII)
_PAIR = re.compile(r'([a-z][\w.]*)=("(?:[^"\\]|\\.)*"|[^\s"\[]+)(?: |(?=\[)|\s*$)', re.ASCII)
_BARE = re.compile(r"[!#-Z^-~]+")
"""A value that needs no quotes. A `[` begins the line of another process where the output of two is mixed."""
_MAX_DIGITS = 18


def write(kind: str, fields: Mapping[str, object]) -> str:
    """The line of a kind. Values are texts and numbers; a text is quoted, as JSON has it, where it has to be."""
    pairs = " ".join(f"{name}={_quoted(value)}" for name, value in fields.items())
    return f"{MARK} {kind} {pairs}" if kind else f"{MARK} {pairs}"


def read(text: str) -> tuple[str, dict[str, str]] | None:
    """Kind and fields of a line of a log; None for a line that is for people. Never raises."""
    start = _START.search(text)
    if start is None:
        return None
    fields, position = {}, start.end()
    while (pair := _PAIR.match(text, position)) is not None:
        fields[pair[1]] = _unquoted(pair[2])
        position = pair.end()
    return (start[1] or "", fields) if fields else None


def whole(text: str) -> int:
    """The whole number in a value. Raises ValueError; a number has at most 18 digits."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
        raise ValueError(f"no whole number: {text[:40]!r}")
    return int(text)


def amount(text: str) -> float:
    """The finite number, not below 0, in a value. Raises ValueError."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(f"no amount: {text[:40]!r}")
    return value


def _quoted(value: object) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text)


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError:  # an escape that JSON does not have
        return text[1:-1]
