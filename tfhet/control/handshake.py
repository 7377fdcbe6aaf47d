"""Both sides prove that they know the job's secret, without sending it.

    server -> client    hello    the server's nonce
    client -> server    join     name, instance, the client's nonce, HMAC-SHA256 over both nonces and the role
    server -> client    welcome  the HMAC for the other role
    client -> server    facts    about this member, and the number of the last message that it has
    server -> client    joined   the lease, and the number of the last message that it has; or `refused`

Both nonces are fresh, so nothing can be replayed; the role is under the HMAC, so nothing can be reflected. A peer that
fails gets no answer. A refusal comes after both proofs, so only the true server can send a member away. From `facts` on
each line carries a mark made with a key of this connection (`connection.Seal`), so that a relay can neither speak nor
repeat anything. Lines are not encrypted. The caller sets the deadline.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tfhet.control import message
from tfhet.control.connection import Connection
from tfhet.control.secret import Secret
from tfhet.errors import TfhetError
from tfhet.schema import MessageError

M = TypeVar("M")

_CLIENT, _SERVER = "member", "coordinator"
"""The roles, as they stand under the HMAC."""


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
    an authenticated member, or None. Raises Unauthenticated, Refused (the member knows), MessageError, or OSError."""
    nonce = secrets.token_hex(32)
    connection.write(message.Hello(message.VERSION, nonce))
    join = await _read(connection, message.Join)
    parts = (join.name, join.instance, nonce, join.nonce)
    if not secret.proves(join.proof, _CLIENT, *parts):
        raise Unauthenticated("wrong secret")
    connection.write(message.Welcome(secret.proof(_SERVER, *parts)))
    connection.seal(*_keys(secret, _SERVER, _CLIENT, parts))
    facts = await _read(connection, message.Facts)
    refuse_for(connection, join.name, objection(join.name, join.instance))
    return JoinRequest(join.name, join.instance, facts.facts, facts.seen)


def refuse_for(connection: Connection, name: str, reason: str | None) -> None:
    """Sends a member its refusal and raises Refused; does nothing when `reason` is None."""
    if reason is not None:
        connection.write(message.Refused(reason[:2000]))
        raise Refused(f"{name}: {reason}")


async def introduce(connection: Connection, secret: Secret, request: JoinRequest) -> message.Joined:
    """The client's side; returns the server's `joined`. Raises Unauthenticated, Refused, MessageError, OSError."""
    hello = await _read(connection, message.Hello)
    if hello.version != message.VERSION:
        raise MessageError(f"the leader speaks version {hello.version} of the link, this is {message.VERSION}")
    nonce = secrets.token_hex(32)
    parts = (request.name, request.instance, hello.nonce, nonce)
    connection.write(message.Join(request.name, request.instance, nonce, secret.proof(_CLIENT, *parts)))
    try:
        welcome = await _read(connection, message.Welcome)
    except ConnectionError as error:
        raise Unauthenticated("it hung up on the proof; is the job's secret the same on both hosts?") from error
    if not secret.proves(welcome.proof, _SERVER, *parts):
        raise Unauthenticated("what answers there does not know the job's secret")
    connection.seal(*_keys(secret, _CLIENT, _SERVER, parts))
    connection.write(message.Facts(dict(request.facts), request.seen))
    return await _read(connection, message.Joined)


def _keys(secret: Secret, sends: str, reads: str, parts: tuple[str, ...]) -> tuple[str, str]:
    """The keys of one connection, by the role that writes with them; they are never sent."""
    return secret.proof(f"lines of the {sends}", *parts), secret.proof(f"lines of the {reads}", *parts)


async def _read(connection: Connection, kind: type[M]) -> M:
    found = await connection.read()
    if isinstance(found, kind):
        return found
    if isinstance(found, message.Refused) and kind is message.Joined:
        raise Refused(found.reason)
    raise MessageError(f"expected {kind.__name__}, got {type(found).__name__}")
