"""The protocol of every connection in a job: a handshake, and records with tags.

Both sides have one key of the job, K: the secret's for the link, and a key derived from the secret for data planes.

    client -> server    MAGIC, purpose (1 byte), length of the name (1), nonce (32), the name by which it dialled
    server -> client    MAGIC, nonce (32)
    client -> server    proof (32)
    server -> client    proof (32)

    S = HKDF-Extract(salt: all bytes of the first two messages, K)                           (RFC 5869, SHA-256)
    client's proof = HKDF-Expand(S, "client proof"), server's proof = HKDF-Expand(S, "server proof")
    keys of the tags = HKDF-Expand(S, "client tags") and HKDF-Expand(S, "server tags"), by the sender

The nonces are fresh, so nothing can be replayed. The purpose names the plane and whether TLS follows, so it cannot be
downgraded. The name ensures that proofs cannot be relayed to another server. The client proves first, and a server
answers nothing to a connection that does not start with MAGIC. Then each direction is a sequence of records:

    length of the message (8 bytes), length of the data (8), tag (16), message, tag (16), data

    tag = HMAC-SHA256(key of the sender, number of the tag in its direction: 1, 2, ... (8 bytes) + bytes)[:16]

Numbers are big-endian. The first tag is of both lengths, the second one of the message. So a relay that changes,
adds, repeats, reorders or drops records, or cuts one, breaks the connection. Data have no tag: only TLS protects them.
If the purpose says so, TLS 1.3 (tls.py) is between the handshake and the records. `native/wire/secure.h` is the same
protocol in C++; the tests of tf.data service connect it to this one.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import struct
from collections.abc import Collection, Generator
from enum import IntEnum

from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError
from tfhet.schema import MessageError

MAGIC = b"tfhet-c1"
"""Protocol and its version; changes with every incompatible change."""
HANDSHAKE_S = 10.0
"""Limit in seconds for a handshake, with TLS, on a data plane."""
KEY_BYTES, NONCE_BYTES, PROOF_BYTES, TAG_BYTES = 32, 32, 32, 16
LONGEST_NAME = 255
_OPENING = len(MAGIC) + 2 + NONCE_BYTES
_LENGTHS = struct.Struct("!QQ")
_NUMBER = struct.Struct("!Q")

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


class Unauthenticated(TfhetError):
    """The other side does not have the job's key, or wants a connection that this side does not offer."""


class Forged(MessageError):
    """A record without the right tag."""

    def __init__(self) -> None:
        super().__init__(
            "a record was changed, added, repeated, reordered or dropped on the way: a machine between the hosts "
            "interferes with the connection"
        )


class _Tags:
    """The tags of one direction."""

    def __init__(self, key: bytes):
        self._keyed, self._count = hmac.new(key, digestmod="sha256"), 0

    def next(self, data: bytes | memoryview) -> bytes:
        self._count += 1
        tag = self._keyed.copy()  # OpenSSL looks the algorithm up again for each `hmac.digest`: half of its time
        tag.update(_NUMBER.pack(self._count) + data)
        return tag.digest()[:TAG_BYTES]


class Records:
    """Seals and opens the records of one connection. One thread may seal while another one opens."""

    HEAD = _LENGTHS.size + TAG_BYTES
    """Number of bytes of the lengths and their tag."""

    def __init__(self, sends: bytes, receives: bytes):
        self._sends, self._receives = _Tags(sends), _Tags(receives)

    def sealed(self, message: bytes, data: int = 0) -> bytes:
        """Returns the record of a message, up to its data, of which there are `data` bytes."""
        lengths = _LENGTHS.pack(len(message), data)
        return b"".join((lengths, self._sends.next(lengths), message, self._sends.next(message)))

    def lengths(self, head: bytes | memoryview, most: int) -> tuple[int, int]:
        """Returns the lengths of the next message and its data. Raises Forged, and MessageError for a message of more
        than `most` bytes."""
        self._check(head[: _LENGTHS.size], head[_LENGTHS.size : self.HEAD])
        size, data = _LENGTHS.unpack_from(head)
        if size > most:
            raise MessageError(f"a message of {size} bytes; at most {most} are allowed")
        return size, data

    def opened(self, body: bytes | memoryview) -> bytes | memoryview:
        """Returns the message of a body, which is the message and its tag. Raises Forged."""
        message = body[:-TAG_BYTES]
        self._check(message, body[-TAG_BYTES:])
        return message

    def _check(self, data: bytes | memoryview, tag: bytes | memoryview) -> None:
        if not hmac.compare_digest(self._receives.next(data), tag):
            raise Forged


def derived_key(key: bytes, purpose: str) -> bytes:
    """Returns 32 bytes from which `key` cannot be found: HKDF-Expand."""
    return hmac.digest(key, purpose.encode() + b"\x01", "sha256")


class Schedule:
    """Proofs and keys of one handshake."""

    def __init__(self, key: bytes, transcript: bytes):
        session = hmac.digest(transcript, key, "sha256")
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
    return Records(schedule.client_tags, schedule.server_tags)


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
    return Records(schedule.server_tags, schedule.client_tags)


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
