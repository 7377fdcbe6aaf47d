"""The messages of the link: one JSON object per line, of a known type with known fields.

hello, join, welcome              the handshake (handshake.py)
facts, joined                     a member joins, or returns after a broken connection
refused                           the server does not let a member in, or has given it up
lease, alive                      renewals, from the server and from a client
message                           numbered; carries the messages of the rooms that use the link
end, left                         the job is over; a member leaves on purpose
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tfhet.errors import TfhetError, shown
from tfhet.units import KIB

VERSION = 2
"""Version of the link; the server says it first."""
MAX_LINE_BYTES = 64 * KIB
MAX_CODE = 255
"""Exit codes lie within +-255: the operating system cuts a larger one, and 256 would become success."""
MAX_NUMBER = 2**53
"""Numbers on the link lie within +-2**53, which every JSON reader keeps exact."""

Message = dict[str, Any]

_FIELDS: Mapping[str, Mapping[str, type]] = {
    "hello": {"version": int, "nonce": str},
    "join": {"name": str, "instance": str, "nonce": str, "proof": str},
    "welcome": {"proof": str},
    "refused": {"reason": str},
    "facts": {"facts": dict, "seen": int},
    "joined": {"lease_s": float, "seen": int},
    "lease": {"seen": int},
    "alive": {"seen": int},
    "message": {"n": int, "body": dict},
    "end": {"code": int, "cause": str},
    "left": {"code": int},
}


class ProtocolError(TfhetError, ValueError):
    """Something that is not a message: too long, not JSON, of an unknown type, or with a field of the wrong type."""


def encode(message: Mapping[str, Any]) -> bytes:
    """The line for a message, newline included. Raises ProtocolError for a message that `decode` would refuse."""
    try:
        line = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"not a message: {error}") from error
    if len(line) > MAX_LINE_BYTES:
        raise ProtocolError(f"a message of {len(line)} bytes; at most {MAX_LINE_BYTES} fit on a line")
    check(message)
    return line


def decode(line: bytes) -> Message:
    """The message in a line. Raises ProtocolError, and nothing else, for any other line."""
    if len(line) > MAX_LINE_BYTES:
        raise ProtocolError(f"a line of more than {MAX_LINE_BYTES} bytes")
    try:
        message = json.loads(line, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a line that is not JSON: {line[:40]!r}") from error
    check(message)
    return dict(message)


def valid_code(code: int) -> int:
    """The exit code, or 1 where it is out of range."""
    return code if -MAX_CODE <= code <= MAX_CODE else 1


def check(message: object) -> None:
    """Raises ProtocolError unless `message` has a known type and the fields of that type."""
    if not isinstance(message, Mapping):
        raise ProtocolError(f"expected an object, got {type(message).__name__}")
    kind = message.get("type")
    wanted = _FIELDS.get(kind) if isinstance(kind, str) else None
    if wanted is None:
        raise ProtocolError(f"unknown message type {shown(kind)}; known: {', '.join(_FIELDS)}")
    for name, type_ in wanted.items():
        value = message.get(name)
        good = isinstance(value, (int, float) if type_ is float else type_) and not isinstance(value, bool)
        if good and isinstance(value, (int, float)):
            limit = MAX_CODE if name == "code" else MAX_NUMBER
            good = -limit <= value <= limit
        if not good:
            raise ProtocolError(f"{kind}: field {name!r} must be {type_.__name__}, not {shown(value)}")
    if kind == "message" and not isinstance(message["body"].get("type"), str):
        raise ProtocolError("message: its body needs a 'type'")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a finite number")
    return number
