"""The protocol of every connection in a job: a handshake, and records with tags.

Both sides have one key of the job, K: the secret's for the link, and a key derived from the secret for data planes.

    client -> server    MAGIC, purpose (1 byte), length of the name (1), nonce (32), the name by which it dialled
    server -> client    MAGIC, nonce (32)
    client -> server    proof (32)
    server -> client    proof (32)

    S = HKDF-Extract(salt: all bytes of the first two messages, K)                           (RFC 5869, SHA-256)
    client's proof = HKDF-Expand(S, "client proof"), server's proof = HKDF-Expand(S, "server proof")
    keys of the tags = HKDF-Expand(S, "client tags") and HKDF-Expand(S, "server tags"), by the sender

The nonces are fresh, so nothing can be replayed. The purpose names the plane and whether it encrypts, so it cannot be
downgraded. The name ensures that proofs cannot be relayed to another server. The client proves first, and a server
answers nothing to a connection that does not start with MAGIC. Then records follow (records.py). `native/wire/secure.h`
is the same protocol in C++, with TLS 1.3 for encryption; the tests of tf.data service connect it to this one.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
from collections.abc import Collection, Generator
from enum import IntEnum

from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError
from tfhet.schema import MessageError
from tfhet.secure.records import Records, derived_key, encrypted

MAGIC = b"tfhet-c2"
"""Protocol and its version; changes with every incompatible change."""
HANDSHAKE_S = 10.0
"""Limit in seconds for a handshake on a data plane."""
KEY_BYTES, NONCE_BYTES, PROOF_BYTES = 32, 32, 32
LONGEST_NAME = 255
_OPENING = len(MAGIC) + 2 + NONCE_BYTES

Steps = Generator[bytes | int, bytes, "Records"]
"""One side of a handshake without its socket: yields bytes to send, or the number of bytes to receive."""


class Purpose(IntEnum):
    """What a connection is for. The purposes of tf.data service are `Mode` in native/wire/secure.h."""

    SERVICE_BATCHES = 0
    SERVICE_ENCRYPTED_BATCHES = 1
    SERVICE_CONTROL = 2
    SERVICE_SHARED_MEMORY = 3
    LINK = 4
    FEED = 5
    ENCRYPTED_FEED = 6
    FEED_SHARED_MEMORY = 7


_ENCRYPTS = (Purpose.ENCRYPTED_FEED,)
"""The purposes whose records are encrypted."""


class Unauthenticated(TfhetError):
    """The other side does not have the job's key, or wants a connection that this side does not offer."""


class Schedule:
    """Proofs and keys of one handshake."""

    def __init__(self, key: bytes, transcript: bytes):
        self.session = session = hmac.digest(transcript, key, "sha256")
        self.client_proof, self.server_proof = (
            derived_key(session, "client proof"),
            derived_key(session, "server proof"),
        )
        self.client_tags, self.server_tags = derived_key(session, "client tags"), derived_key(session, "server tags")


def as_client(key: bytes, purpose: Purpose, name: str = "") -> Steps:
    """The client's side. Raises Unauthenticated, and MessageError for a server of another version.

    Args:
        key: The job's key.
        purpose: What the connection is for.
        name: The name or address by which the server was dialled.
    """
    short = name.encode()[:LONGEST_NAME]
    opening = MAGIC + bytes((purpose, len(short))) + secrets.token_bytes(NONCE_BYTES) + short
    yield opening
    answer = yield len(MAGIC) + NONCE_BYTES
    _check_version(answer)
    schedule = Schedule(key, opening + answer)
    yield schedule.client_proof
    try:
        proof = yield PROOF_BYTES
    except ConnectionError as error:
        raise Unauthenticated(
            "it hung up on the proof of the job's key; is the job's secret the same on both hosts?"
        ) from error
    if not hmac.compare_digest(proof, schedule.server_proof):
        raise Unauthenticated("the server there does not have the job's key")
    records = Records(schedule.client_tags, schedule.server_tags)
    return (yield from encrypted(records, schedule.session, is_server=False)) if purpose in _ENCRYPTS else records


def as_server(key: bytes, purposes: Collection[Purpose], name: str = "") -> Steps:
    """The server's side. Raises Unauthenticated, and MessageError for bytes of another protocol.

    Args:
        key: The job's key.
        purposes: What connections may be for.
        name: The name by which clients must have dialled.
    """
    opening = yield _OPENING
    if not opening.startswith(MAGIC[:-1]):
        raise MessageError("not a connection of tfhet")
    answer = MAGIC + secrets.token_bytes(NONCE_BYTES)
    dialled = yield opening[len(MAGIC) + 1]
    yield answer
    _check_version(opening)
    schedule = Schedule(key, opening + dialled + answer)
    proof = yield PROOF_BYTES
    if not hmac.compare_digest(proof, schedule.client_proof):
        raise Unauthenticated("wrong secret: the client does not have the job's key")
    if dialled != name.encode()[:LONGEST_NAME]:
        raise Unauthenticated(f"the client has dialled {dialled.decode(errors='replace')!r}, and this is {name!r}")
    if (purpose := opening[len(MAGIC)]) not in purposes:
        wanted, offered = _named(purpose), " or ".join(map(_named, purposes))
        raise Unauthenticated(f"the client wants {wanted}, and this server offers {offered}")
    yield schedule.server_proof
    records = Records(schedule.server_tags, schedule.client_tags)
    return (yield from encrypted(records, schedule.session, is_server=True)) if purpose in _ENCRYPTS else records


def _named(purpose: int) -> str:
    return Purpose(purpose).name if purpose in set(Purpose) else f"purpose {purpose}"


def _check_version(received: bytes) -> None:
    if not received.startswith(MAGIC):
        shown = received[: len(MAGIC)].decode("ascii", "backslashreplace")
        raise MessageError(
            f"the other side speaks {shown!r}, this side {MAGIC.decode()!r}: install the same version of tfhet there"
        )


def perform_handshake(end: socket.socket, steps: Steps, limit_s: float = HANDSHAKE_S) -> Records:
    """Does one side's handshake on a blocking socket, and leaves it without a timeout. Raises OSError, TimeoutError
    after `limit_s` seconds, and the errors of the side."""
    until_s = SYSTEM.monotonic() + limit_s

    def receive(size: int) -> bytes:
        found = b""
        while len(found) < size:
            end.settimeout(max(1e-3, until_s - SYSTEM.monotonic()))
            found += _not_empty(end.recv(size - len(found)))
        return found

    try:
        wish = next(steps)
        while True:
            end.settimeout(max(1e-3, until_s - SYSTEM.monotonic()))
            if isinstance(wish, bytes):
                end.sendall(wish)
                wish = next(steps)
                continue
            try:
                received = receive(wish)
            except ConnectionError as error:
                wish = steps.throw(error)
            else:
                wish = steps.send(received)
    except StopIteration as done:
        end.settimeout(None)
        records: Records = done.value
        return records


async def perform_handshake_async(end: socket.socket, steps: Steps) -> Records:
    """Does one side's handshake on a non-blocking socket. Raises OSError and the errors of the side; the caller sets
    the deadline."""
    loop = asyncio.get_running_loop()

    async def receive(size: int) -> bytes:
        found = b""
        while len(found) < size:
            found += _not_empty(await loop.sock_recv(end, size - len(found)))
        return found

    try:
        wish = next(steps)
        while True:
            if isinstance(wish, bytes):
                await loop.sock_sendall(end, wish)
                wish = next(steps)
                continue
            try:
                received = await receive(wish)
            except ConnectionError as error:
                wish = steps.throw(error)
            else:
                wish = steps.send(received)
    except StopIteration as done:
        records: Records = done.value
        return records


def _not_empty(received: bytes) -> bytes:
    if not received:
        raise ConnectionError("the other side closed the connection in the handshake")
    return received
