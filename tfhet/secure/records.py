"""Records: what a connection carries after the handshake. Each direction is a sequence of them.

    length of the message (8 bytes), length of the data (8), tag (16), message, tag (16), data

    tag = HMAC-SHA256(key of the sender, number of the tag in its direction: 1, 2, ... (8 bytes) + bytes)[:16]

Numbers are big-endian. The first tag is of both lengths, the second one of the message. So a relay that changes,
adds, repeats, reorders or drops records, or cuts one, breaks the connection. Data have no tag.

Encrypted records have the same form: the lengths and the message are encrypted with AES-256-GCM, whose tags replace
the others and whose nonce is the number of the tag (12 bytes). Their data are encrypted too, in chunks of CHUNK bytes
(the last one is shorter), each followed by its tag. The keys depend on the handshake and on an exchange of ephemeral
keys: both sides first send their public key of X25519 as a record with tags.

    E = HKDF-Extract(salt: S of the handshake, shared secret + client's public key + server's public key)
    keys = HKDF-Expand(E, "client records") and HKDF-Expand(E, "server records"), by the sender
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Protocol

from tfhet.extras import needed
from tfhet.schema import MessageError

TAG_BYTES = 16
CHUNK = 1 << 18
"""Bytes of data that are encrypted at a time. A chunk and its encryption remain in a CPU's cache."""
_PUBLIC_BYTES = 32
_LENGTHS = struct.Struct("!QQ")
_NUMBER = struct.Struct("!Q")
_PADS = 0x36, 0x5C


class Forged(MessageError):
    """A record without the right tag."""

    def __init__(self) -> None:
        super().__init__(
            "a record was changed, added, repeated, reordered or dropped on the way: a machine between the hosts "
            "interferes with the connection"
        )


class _Sealing(Protocol):
    """Protects the parts of records in one direction."""

    def seal(self, plain: bytes | memoryview) -> bytes:
        """Returns the next part with its tag."""

    def open(self, sealed: bytes | memoryview) -> bytes | memoryview:
        """Returns the next part from the result of `seal`. Raises Forged."""


class _Tags:
    def __init__(self, key: bytes):
        # HMAC of RFC 2104, prepared for the key: `hmac` copies three states of OpenSSL for a tag, in several calls.
        self._inner, self._outer = (hashlib.sha256(bytes(byte ^ pad for byte in key.ljust(64, b"\0"))) for pad in _PADS)
        self._count = 0

    def seal(self, plain: bytes | memoryview) -> bytes:
        return b"".join((plain, self._next(plain)))

    def open(self, sealed: bytes | memoryview) -> bytes | memoryview:
        plain = sealed[:-TAG_BYTES]
        if not hmac.compare_digest(self._next(plain), sealed[-TAG_BYTES:]):
            raise Forged
        return plain

    def _next(self, data: bytes | memoryview) -> bytes:
        self._count += 1
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(_NUMBER.pack(self._count) + data)
        outer.update(inner.digest())
        return outer.digest()[:TAG_BYTES]


class _Cipher:
    def __init__(self, key: bytes):
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher, self._invalid, self._count = AESGCM(key), InvalidTag, 0

    def seal(self, plain: bytes | memoryview) -> bytes:
        return self._cipher.encrypt(self._nonce(), plain, None)

    def open(self, sealed: bytes | memoryview) -> bytes:
        try:
            return self._cipher.decrypt(self._nonce(), sealed, None)
        except self._invalid:
            raise Forged from None

    def seal_into(self, plain: bytes | memoryview, memory: memoryview) -> None:
        if hasattr(self._cipher, "encrypt_into"):
            self._cipher.encrypt_into(self._nonce(), plain, None, memory)
        else:  # cryptography before 47
            memory[:] = self.seal(plain)

    def open_into(self, sealed: memoryview, memory: memoryview) -> None:
        if hasattr(self._cipher, "decrypt_into"):
            try:
                self._cipher.decrypt_into(self._nonce(), sealed, None, memory)
            except self._invalid:
                raise Forged from None
        else:
            memory[:] = self.open(sealed)

    def _nonce(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(12, "big")


class Records:
    """Seals and opens the records of one connection. One thread may seal while another one opens."""

    HEAD = _LENGTHS.size + TAG_BYTES
    """Number of bytes of the lengths and their tag."""

    def __init__(self, sends: bytes, receives: bytes):
        """sends, receives: keys of 32 bytes."""
        self._sends: _Sealing = _Tags(sends)
        self._receives: _Sealing = _Tags(receives)

    def sealed(self, message: bytes, data: int = 0) -> bytes:
        """Returns the record of a message, up to its `data` bytes of data."""
        return self._sends.seal(_LENGTHS.pack(len(message), data)) + self._sends.seal(message)

    def lengths(self, head: bytes | memoryview, most: int) -> tuple[int, int]:
        """Returns the lengths of the next message and its data. Raises Forged, and MessageError for a message of more
        than `most` bytes."""
        size, data = _LENGTHS.unpack(self._receives.open(head[: self.HEAD]))
        if size > most:
            raise MessageError(f"a message of {size} bytes; at most {most} are allowed")
        return size, data

    def opened(self, body: bytes | memoryview) -> bytes | memoryview:
        """Returns the message of a body, which is the message and its tag. Raises Forged."""
        return self._receives.open(body)


class EncryptedRecords(Records):
    """Records with encrypted messages and data."""

    _sends: _Cipher
    _receives: _Cipher

    def __init__(self, sends: bytes, receives: bytes):
        self._sends, self._receives = _Cipher(sends), _Cipher(receives)
        self._sealed, self._received = (memoryview(bytearray(CHUNK + TAG_BYTES)) for _ in range(2))

    def sealed_data(self, pieces: Iterable[memoryview]) -> Iterator[memoryview]:
        """Yields the encrypted chunks of data that are in several pieces, uint8. A chunk is valid until the next."""
        for plain in _chunks(pieces):
            sealed = self._sealed[: len(plain) + TAG_BYTES]
            self._sends.seal_into(plain, sealed)
            yield sealed

    def open_data(self, receive: Callable[[memoryview], object], memory: memoryview) -> None:
        """Receives encrypted data into `memory`, uint8. receive: fills its argument with the next bytes. Raises Forged
        and the errors of `receive`."""
        for begin in range(0, memory.nbytes, CHUNK):
            part = memory[begin : begin + CHUNK]
            sealed = self._received[: part.nbytes + TAG_BYTES]
            receive(sealed)
            self._receives.open_into(sealed, part)


def _chunks(pieces: Iterable[memoryview]) -> Iterator[bytes | memoryview]:
    """Joins and divides pieces into chunks of CHUNK bytes; the last one may be shorter."""
    begun = bytearray()
    for piece in pieces:
        while piece.nbytes:
            if not begun and piece.nbytes >= CHUNK:
                yield piece[:CHUNK]
                piece = piece[CHUNK:]
                continue
            size = CHUNK - len(begun)
            begun += piece[:size]
            piece = piece[size:]
            if len(begun) == CHUNK:
                yield bytes(begun)
                begun.clear()
    if begun:
        yield bytes(begun)


def encrypted(records: Records, session: bytes, *, is_server: bool) -> Generator[bytes | int, bytes, EncryptedRecords]:
    """Exchanges keys over records with tags, as a part of `Steps`. Raises Forged, MessageError for another message, and
    MissingPackage.

    Args:
        records: The unused records of this connection.
        session: S of the handshake.
        is_server: Whether this side is the server.
    """
    with needed("--data_plane_encryption"):
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    private = X25519PrivateKey.generate()
    own = private.public_key().public_bytes_raw()
    yield records.sealed(own)
    try:
        head = yield Records.HEAD
    except ConnectionError as error:
        raise MessageError(
            "it hung up instead of sending a public key; is the package `cryptography` installed there?"
        ) from error
    if (lengths := records.lengths(head, _PUBLIC_BYTES)) != (_PUBLIC_BYTES, 0):
        raise MessageError(f"a message of {lengths[0]} bytes instead of a public key")
    other = bytes(records.opened((yield _PUBLIC_BYTES + TAG_BYTES)))
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError as error:
        raise MessageError(f"a public key that cannot be used: {error}") from None
    publics = other + own if is_server else own + other
    extracted = hmac.digest(session, shared + publics, "sha256")
    client, server = (derived_key(extracted, f"{side} records") for side in ("client", "server"))
    return EncryptedRecords(server, client) if is_server else EncryptedRecords(client, server)


def derived_key(key: bytes, purpose: str) -> bytes:
    """Returns 32 bytes from which `key` cannot be found: HKDF-Expand."""
    return hmac.digest(key, purpose.encode() + b"\x01", "sha256")
