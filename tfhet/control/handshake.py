"""Both sides prove that they know the job's secret, without sending it.

    server -> client    hello    the server's nonce
    client -> server    join     name, instance, the client's nonce, HMAC-SHA256 over both nonces and the role
    server -> client    welcome  the HMAC for the other role
    client -> server    facts    about this member, and the number of the last message that it has
    server -> client    joined   the lease, and the number of the last message that it has; or `refused`

Both nonces are fresh, so nothing can be replayed; the role is under the HMAC, so nothing can be reflected. A peer that
fails gets no answer. A refusal comes after both proofs, so only the true server can send a member away. From `facts` on
each line carries a mark made with a key of this connection (`connection.Seal`), so that who passes the handshake on
can neither speak nor repeat anything afterwards. Lines are not encrypted. The caller sets the deadline.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tfhet.control.connection import Connection
from tfhet.control.message import VERSION, Message, ProtocolError
from tfhet.control.secret import Secret
from tfhet.errors import TfhetError

_CLIENT, _SERVER = "member", "coordinator"
"""The roles, as they stand under the HMAC."""
_HEX_32_BYTES = re.compile(r"[0-9a-f]{64}")


class Refused(TfhetError):
    """The server knows the secret and refuses this member; the text says why."""


class Unauthenticated(TfhetError):
    """The other side does not know the secret."""


@dataclass(frozen=True)
class JoinRequest:
    """The identity and facts that a member sends when it dials."""

    name: str
    instance: str
    """Random text of one process: distinguishes a member that dials again from another process of the same name."""
    facts: Mapping[str, Any]
    seen: int
    """Number of the last message that the member has from the server; 0 the first time."""


async def admit(connection: Connection, secret: Secret, objection: Callable[[str, str], str | None]) -> JoinRequest:
    """The server's side, up to the member's facts; the caller answers them. `objection(name, instance)`: why to refuse
    an authenticated member, or None. Raises Unauthenticated, Refused (the member knows), ProtocolError, or OSError."""
    nonce = secrets.token_hex(32)
    connection.write({"type": "hello", "version": VERSION, "nonce": nonce})
    join = _expect(await connection.read(), "join")
    name, instance = join["name"], join["instance"]
    if not (_HEX_32_BYTES.fullmatch(join["nonce"]) and _is_name(name) and _is_name(instance)):
        raise ProtocolError("join: malformed nonce, name or instance")
    parts = (name, instance, nonce, join["nonce"])
    if not secret.proves(join["proof"], _CLIENT, *parts):
        raise Unauthenticated("wrong secret")
    connection.write({"type": "welcome", "proof": secret.proof(_SERVER, *parts)})
    connection.seal(*_keys(secret, _SERVER, _CLIENT, parts))
    facts = _expect(await connection.read(), "facts")
    refuse_for(connection, name, objection(name, instance))
    return JoinRequest(name, instance, facts["facts"], facts["seen"])


def refuse_for(connection: Connection, name: str, reason: str | None) -> None:
    """Sends a member its refusal and raises Refused; does nothing when `reason` is None."""
    if reason is not None:
        connection.write({"type": "refused", "reason": reason[:2000]})
        raise Refused(f"{name}: {reason}")


async def introduce(connection: Connection, secret: Secret, request: JoinRequest) -> Message:
    """The client's side; returns the server's `joined`. Raises Unauthenticated, Refused, ProtocolError, OSError."""
    hello = _expect(await connection.read(), "hello")
    if hello["version"] != VERSION:
        raise ProtocolError(f"the leader speaks version {hello['version']} of the link, this is {VERSION}")
    if not _HEX_32_BYTES.fullmatch(hello["nonce"]):
        raise ProtocolError("hello: malformed nonce")
    nonce = secrets.token_hex(32)
    parts = (request.name, request.instance, hello["nonce"], nonce)
    join = {"type": "join", "name": request.name, "instance": request.instance, "nonce": nonce}
    connection.write({**join, "proof": secret.proof(_CLIENT, *parts)})
    try:
        welcome = _expect(await connection.read(), "welcome")
    except ConnectionError as error:
        raise Unauthenticated("it hung up on the proof; is the job's secret the same on both hosts?") from error
    if not secret.proves(welcome["proof"], _SERVER, *parts):
        raise Unauthenticated("what answers there does not know the job's secret")
    connection.seal(*_keys(secret, _CLIENT, _SERVER, parts))
    connection.write({"type": "facts", "facts": dict(request.facts), "seen": request.seen})
    return _expect(await connection.read(), "joined")


def _keys(secret: Secret, sends: str, reads: str, parts: tuple[str, ...]) -> tuple[str, str]:
    """The keys of one connection, by the role that writes with them; they are never sent."""
    return secret.proof(f"lines of the {sends}", *parts), secret.proof(f"lines of the {reads}", *parts)


def _expect(message: Message, kind: str) -> Message:
    if message["type"] == "refused" and kind == "joined":
        raise Refused(message["reason"])
    if message["type"] != kind:
        raise ProtocolError(f"expected {kind!r}, got {message['type']!r}")
    return message


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 300 and text.isprintable()
