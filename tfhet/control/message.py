"""The messages of the link between launchers: JSON objects in the records of an authenticated connection."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from tfhet.schema import MAX_CODE, MAX_NUMBER, Code, Count, Message, decode as decode_json, encode as encode_json
from tfhet.units import KIB

MAX_MESSAGE_BYTES = 64 * KIB
SHORTEST_LEASE_S, LONGEST_LEASE_S = 0.01, 86400.0
"""Range of leases: a shorter one keeps a client busy with renewals, a longer one never ends."""

Word = Annotated[str, Meta(min_length=1, max_length=300, pattern=r"\A[^\x00-\x1f\x7f-\x9f\ud800-\udfff]*\Z")]


class Join(Message, frozen=True):
    """A member joins with facts about its host, or returns after a broken connection: its first message."""

    name: Word
    instance: Word
    """Random text of one process: distinguishes a member that dials again from another process of the same name."""
    facts: dict[str, Any]
    seen: Count
    """Number of the last message that it has received; 0 the first time."""


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


AnyMessage = Join | Joined | Refused | Alive | Numbered | End | Left


def encode(message: object) -> bytes:
    """Returns the JSON of a message. Raises MessageError for values that cannot be sent."""
    return encode_json(message, MAX_MESSAGE_BYTES)


def decode(text: bytes | memoryview) -> AnyMessage:
    """Returns the message in JSON. Raises MessageError, and nothing else, for any other text."""
    return decode_json(text, AnyMessage)


def valid_code(code: int) -> int:
    """The exit code, or 1 if it is out of range."""
    return code if -MAX_CODE <= code <= MAX_CODE else 1
