"""The messages of the link between launchers: one JSON object per line."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from tfhet.schema import MAX_CODE, MAX_NUMBER, Code, Count, Message, decode as decode_json, encode as encode_json
from tfhet.units import KIB

VERSION = 3  # the server sends it first
MAX_LINE_BYTES = 64 * KIB
SHORTEST_LEASE_S, LONGEST_LEASE_S = 0.01, 86400.0
"""Range of leases: a shorter one keeps a client busy with renewals, a longer one never ends."""

Hex = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
"""32 bytes."""
Word = Annotated[str, Meta(min_length=1, max_length=300, pattern=r"\A[^\x00-\x1f\x7f-\x9f\ud800-\udfff]*\Z")]


class Hello(Message, frozen=True):
    """The server's first message (handshake.py)."""

    version: int
    nonce: Hex


class Join(Message, frozen=True):
    """The client's answer: it knows the secret."""

    name: Word
    instance: Word
    nonce: Hex
    proof: str


class Welcome(Message, frozen=True):
    """The server knows the secret, too."""

    proof: str


class Facts(Message, frozen=True):
    """A member joins with facts about its host, or returns after a broken connection."""

    facts: dict[str, Any]
    seen: Count
    """Number of the last message that it has received."""


class Joined(Message, frozen=True):
    """The server has let the member in."""

    lease_s: Annotated[float, Meta(ge=SHORTEST_LEASE_S, le=LONGEST_LEASE_S)]
    seen: Count
    wall_s: Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)] | None = None
    """The time of its clock."""


class Refused(Message, frozen=True):
    """The server does not let the member in, or has given it up."""

    reason: str


class Alive(Message, frozen=True):
    """A renewal of the lease, in both directions."""

    seen: Count


class Numbered(Message, frozen=True):
    """Carries a message of those that use the link (`tfhet.messages.link`)."""

    n: Count
    """Its number: 1 for the first one in each direction."""
    body: dict[str, Any]


class End(Message, frozen=True):
    """The job is over."""

    code: Code
    cause: str


class Left(Message, frozen=True):
    """A member leaves on purpose."""

    code: Code


AnyMessage = Hello | Join | Welcome | Facts | Joined | Refused | Alive | Numbered | End | Left


def encode(message: object) -> bytes:
    """Returns the line of a message, line break included. Raises MessageError for values that cannot be sent."""
    return encode_json(message, MAX_LINE_BYTES - 1) + b"\n"


def decode(line: bytes) -> AnyMessage:
    """Returns the message in a line. Raises MessageError, and nothing else, for any other line."""
    return decode_json(line, AnyMessage)


def valid_code(code: int) -> int:
    """The exit code, or 1 if it is out of range."""
    return code if -MAX_CODE <= code <= MAX_CODE else 1
