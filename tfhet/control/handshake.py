"""Both sides prove that they know the job's secret, without sending it.

    coordinator -> member    hello    its nonce
    member -> coordinator    join     name, instance, its nonce, HMAC-SHA256 over both nonces and who says so
    coordinator -> member    welcome  the same for the other role
    member -> coordinator    facts    what it says about itself, and the last message it has
    coordinator -> member    joined   the lease, and the last message it has; or `refused`

Both nonces are fresh, so nothing can be replayed; the role is under the HMAC, so nothing can be reflected. A peer that
fails is told nothing. A refusal comes after both proofs, so nobody but the coordinator can send a member away. The
caller sets the deadline.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tfhet.control.connection import Connection
from tfhet.control.message import Message, ProtocolError
from tfhet.control.secret import Secret
from tfhet.errors import TfhetError

VERSION = 1
_HEX_32_BYTES = re.compile(r"[0-9a-f]{64}")


class Refused(TfhetError):
    """The coordinator knows the secret and does not want this member; the message says why."""


class Unauthenticated(TfhetError):
    """The other side does not know the secret."""


@dataclass(frozen=True)
class JoinRequest:
    """A member that dials."""

    name: str
    instance: str
    """Random per process: tells a member that dials again from another one of the same name."""
    facts: Mapping[str, Any]
    """What it says about itself."""
    seen: int
    """Number of the last message that it has from the coordinator; 0 the first time."""


async def admit(connection: Connection, secret: Secret, objection: Callable[[str, str], str | None]) -> JoinRequest:
    """The coordinator's side, up to the member's facts; answering those is left to the caller.

    `objection(name, instance)` gives the reason to refuse an authenticated member, or None.
    Raises Unauthenticated, Refused (the member has been told), ProtocolError, or OSError.
    """
    nonce = secrets.token_hex(32)
    connection.write({"type": "hello", "version": VERSION, "nonce": nonce})
    join = _expect(await connection.read(), "join")
    name, instance = join["name"], join["instance"]
    if not (_HEX_32_BYTES.fullmatch(join["nonce"]) and _is_name(name) and _is_name(instance)):
        raise ProtocolError("join: malformed nonce, name or instance")
    said = (name, instance, nonce, join["nonce"])
    if not _proves(join["proof"], secret, "member", *said):
        raise Unauthenticated("wrong secret")
    connection.write({"type": "welcome", "proof": _proof(secret, "coordinator", *said)})
    facts = _expect(await connection.read(), "facts")
    refuse_for(connection, name, objection(name, instance))
    return JoinRequest(name, instance, facts["facts"], facts["seen"])


def refuse_for(connection: Connection, name: str, reason: str | None) -> None:
    """Tells a member that it is refused, and raises Refused; nothing without a reason."""
    if reason is not None:
        connection.write({"type": "refused", "reason": reason[:2000]})
        raise Refused(f"{name}: {reason}")


async def introduce(connection: Connection, secret: Secret, newcomer: JoinRequest) -> Message:
    """The member's side; gives the coordinator's `joined`. Raises Unauthenticated, Refused, ProtocolError, OSError."""
    hello = _expect(await connection.read(), "hello")
    if hello["version"] != VERSION:
        raise ProtocolError(f"the coordinator speaks version {hello['version']}, this is {VERSION}")
    if not _HEX_32_BYTES.fullmatch(hello["nonce"]):
        raise ProtocolError("hello: malformed nonce")
    nonce = secrets.token_hex(32)
    said = (newcomer.name, newcomer.instance, hello["nonce"], nonce)
    proof = _proof(secret, "member", *said)
    join = {"type": "join", "name": newcomer.name, "instance": newcomer.instance, "nonce": nonce, "proof": proof}
    connection.write(join)
    try:
        welcome = _expect(await connection.read(), "welcome")
    except ConnectionError as error:
        raise Unauthenticated("it hung up on the proof; is the job's secret the same on both hosts?") from error
    if not _proves(welcome["proof"], secret, "coordinator", *said):
        raise Unauthenticated("what answers there does not know the job's secret")
    connection.write({"type": "facts", "facts": dict(newcomer.facts), "seen": newcomer.seen})
    return _expect(await connection.read(), "joined")


def _expect(message: Message, kind: str) -> Message:
    if message["type"] == "refused" and kind == "joined":
        raise Refused(message["reason"])
    if message["type"] != kind:
        raise ProtocolError(f"expected {kind!r}, got {message['type']!r}")
    return message


def _proof(secret: Secret, *said: object) -> str:
    # JSON keeps the parts apart, so no two different tuples give the same bytes.
    return secret.sign(json.dumps(["tfhet", VERSION, *said]).encode("ascii")).hex()


def _proves(proof: str, secret: Secret, *said: object) -> bool:
    return hmac.compare_digest(proof.encode("utf-8", "replace"), _proof(secret, *said).encode("ascii"))


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 300 and text.isprintable()
