"""A connection of the feed: both sides first prove that they have the job's key, and then exchange frames.

    server -> client    a nonce of 32 bytes
    client -> server    a nonce of 32 bytes, and HMAC-SHA256 over the label, both nonces and the address that it dialled
    server -> client    HMAC-SHA256 over the other label and the same

The client proves first, so port scanners get only random bytes. If batches are encrypted, TLS 1.3 follows: both sides
show the job's certificate, whose Ed25519 key is derived from the job's key.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import hmac
import secrets
import select
import socket
import ssl
import struct
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError, UsageError
from tfhet.planes.feed.frame import LENGTHS, MOST_HEADER, Header, headers_of, joined
from tfhet.schema import MessageError

PROOF_S = 10.0
"""Limit in seconds for both proofs and the TLS handshake together."""
BYTES = 32
_HEAD = 1024
"""Bytes to receive at the beginning of a frame; the part that belongs to its buffers is copied."""
_AT_ONCE = 64
"""Buffers in one system call; Linux allows 1024."""


class Unauthenticated(TfhetError):
    """The other side does not have the job's key."""


class FeedConnection:
    """A socket for frames. One thread may send while another one receives."""

    def __init__(self, end: socket.socket | _Tls):
        self._end = end
        self._head = memoryview(bytearray(_HEAD))
        self._held = self._head[:0]
        """Bytes that were received with the last header and belong to the data after it."""

    @classmethod
    def dial(cls, address: str, key: bytes, encrypted: bool, limit_s: float = PROOF_S) -> FeedConnection:
        """Connects to HOST:PORT as a reader. Raises OSError, and Unauthenticated if the server has another key."""
        host, _, port = address.rpartition(":")
        end = socket.create_connection((host.strip("[]"), int(port)), timeout=limit_s)
        try:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            until_s = SYSTEM.monotonic() + limit_s
            theirs = _proved(end, BYTES, until_s)
            mine = secrets.token_bytes(BYTES)
            parts = (bytes(theirs), mine, address.encode())
            end.sendall(mine + _proof(key, b"feed reader", *parts))
            try:
                answer = _proved(end, BYTES, until_s)
            except ConnectionError:
                raise Unauthenticated(f"{address} hung up on the proof of the job's key") from None
            if not hmac.compare_digest(answer, _proof(key, b"feed server", *parts)):
                raise Unauthenticated(f"the server at {address} does not have the job's key")
            return cls(_secured(end, key, encrypted, server=False))
        except BaseException:
            end.close()
            raise

    @classmethod
    def admit(cls, end: socket.socket, address: str, key: bytes, encrypted: bool) -> FeedConnection:
        """The server's side. Raises Unauthenticated, OSError, ssl.SSLError; the caller closes `end` then."""
        until_s = SYSTEM.monotonic() + PROOF_S
        end.settimeout(PROOF_S)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        mine = secrets.token_bytes(BYTES)
        end.sendall(mine)
        theirs, proof = _proved(end, BYTES, until_s), _proved(end, BYTES, until_s)
        parts = (mine, bytes(theirs), address.encode())
        if not hmac.compare_digest(proof, _proof(key, b"feed reader", *parts)):
            raise Unauthenticated("a connection without the job's key")
        end.sendall(_proof(key, b"feed server", *parts))
        return cls(_secured(end, key, encrypted, server=True))

    def silent_after(self, limit_s: float) -> None:
        """Makes `receive` raise TimeoutError after `limit_s` seconds of silence."""
        if isinstance(self._end, _Tls):
            self._end.settimeout(limit_s)
        else:  # the kernel's timeout: Python's would double the system calls
            whole = int(limit_s)
            limit = struct.pack("@ll", whole, int(1e6 * (limit_s - whole)))
            self._end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def send(self, messages: Sequence[tuple[Header, Sequence[memoryview]]]) -> None:
        """Sends a frame. Raises OSError."""
        pieces = joined(messages)
        if isinstance(self._end, _Tls):
            for piece in pieces:
                self._end.sendall(piece)
            return
        while pieces:
            sent = self._end.sendmsg(pieces[:_AT_ONCE])
            while pieces and sent >= pieces[0].nbytes:
                sent -= pieces.pop(0).nbytes
            if sent:
                pieces[0] = pieces[0].cast("B")[sent:] if pieces[0].nbytes else pieces[0]

    def receive(self, kinds: Any, most: int = MOST_HEADER) -> list[Any]:
        """Receives the headers of the next frame, of the types `kinds` and at most `most` bytes. The caller must
        receive their buffers with `receive_into`. Raises OSError, and MessageError for anything else."""
        got = self._at_least(LENGTHS.size)
        size, rest = LENGTHS.unpack_from(got)
        if size > most:
            raise MessageError(f"a header of {size} bytes; at most {most} are allowed")
        end = LENGTHS.size + size
        if got.nbytes < end:
            got = self._at_least(end)
        self._held = got[end:] if got.nbytes > end else self._head[:0]  # frees the memory of a long header
        return headers_of(got[LENGTHS.size : end], rest, kinds)

    def receive_into(self, memories: Sequence[memoryview]) -> None:
        """Fills all memories. Raises OSError."""
        left = [memory for memory in memories if memory.nbytes]
        while left and self._held.nbytes:
            got = min(self._held.nbytes, left[0].nbytes)
            left[0][:got], self._held = self._held[:got], self._held[got:]
            left = _without(got, left)
        while left:
            left = _without(_received(self._end, left[:_AT_ONCE], socket.MSG_WAITALL), left)

    def _at_least(self, size: int) -> memoryview:
        """Returns at least the next `size` bytes. A frame's lengths and its header mostly arrive together."""
        got = self._held.nbytes
        memory = self._head if size <= _HEAD else memoryview(bytearray(size))
        memory[:got] = self._held
        while got < size:
            got += _received(self._end, [memory[got:]], 0)
        self._held = memory[:got]
        return self._held

    def close(self) -> None:
        """Wakes the threads that wait for this connection, and closes it."""
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()


def _proof(key: bytes, *parts: bytes) -> bytes:
    return hmac.new(key, b"\0".join((b"tfhet", *parts)), hashlib.sha256).digest()


def _proved(end: socket.socket, size: int, until_s: float) -> bytearray:
    """Receives bytes of a handshake. Raises TimeoutError if they have not all arrived at the time `until_s`."""
    found = bytearray()
    while len(found) < size:
        end.settimeout(max(1e-3, until_s - SYSTEM.monotonic()))
        got = end.recv(size - len(found))
        if not got:
            raise ConnectionError("the other side has closed the connection")
        found += got
    end.settimeout(max(1e-3, until_s - SYSTEM.monotonic()))  # for the next step
    return found


def _received(end: socket.socket | _Tls, memories: list[memoryview], flags: int) -> int:
    """Receives at least one byte into the memories, in order, and returns the number of bytes."""
    try:
        if isinstance(end, _Tls) or len(memories) == 1:
            got = end.recv_into(memories[0], memories[0].nbytes, flags)
        else:
            got = end.recvmsg_into(memories, 0, flags)[0]
    except BlockingIOError:
        raise TimeoutError("nothing was received for too long") from None
    if not got:
        raise ConnectionError("the other side has closed the connection")
    return got


def _without(count: int, memories: list[memoryview]) -> list[memoryview]:
    """Returns memories without their first `count` bytes."""
    for at, memory in enumerate(memories):
        if count < memory.nbytes:
            return [memory[count:], *memories[at + 1 :]]
        count -= memory.nbytes
    return []


def _secured(end: socket.socket, key: bytes, encrypted: bool, server: bool) -> socket.socket | _Tls:
    if encrypted:
        return _Tls(tls_context(key, server).wrap_socket(end, server_side=server))
    end.settimeout(None)
    return end


class _Tls:
    """An encrypted socket with the methods that a connection needs. OpenSSL allows one thread at a time in it, so no
    call waits for the network while it holds the lock."""

    def __init__(self, end: ssl.SSLSocket):
        end.setblocking(False)
        self._end, self._lock = end, threading.Lock()
        self._limit_s: float | None = None

    def settimeout(self, limit_s: float | None) -> None:
        self._limit_s = limit_s

    def recv_into(self, memory: memoryview, size: int, flags: int) -> int:
        return self._do(functools.partial(self._end.recv_into, memory))

    def sendall(self, memory: memoryview) -> None:
        memory = memory.cast("B") if memory.nbytes else memory
        while memory.nbytes:
            memory = memory[self._do(functools.partial(self._end.send, memory)) :]

    def shutdown(self, how: int) -> None:
        self._end.shutdown(how)

    def close(self) -> None:
        self._end.close()

    def _do(self, call: Callable[[], int]) -> int:
        while True:
            try:
                with self._lock:
                    return call()
            except ssl.SSLWantReadError:
                event = select.POLLIN
            except ssl.SSLWantWriteError:
                event = select.POLLOUT
            except ssl.SSLEOFError as error:
                raise ConnectionError(str(error)) from None
            poll = select.poll()
            try:
                poll.register(self._end, event)
            except ValueError:
                raise ConnectionError("this side has closed the connection") from None
            if not poll.poll(None if self._limit_s is None else 1e3 * self._limit_s):
                raise TimeoutError(f"nothing was received for {self._limit_s:g} s")


@functools.lru_cache(maxsize=2)
def tls_context(key: bytes, server: bool) -> ssl.SSLContext:
    """Returns a context for TLS 1.3 in which both sides show, and trust only, the job's certificate."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise UsageError(
            f"--data_plane_encryption needs the package cryptography on every host of the feed: {error}"
        ) from None
    own = Ed25519PrivateKey.from_private_bytes(hmac.new(key, b"tfhet feed certificate", hashlib.sha256).digest())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tfhet feed")])
    since = datetime.datetime(2020, 1, 1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(own.public_key())
        .serial_number(1)
        .not_valid_before(since)
        .not_valid_after(since.replace(year=2120))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(own, None)
        .public_bytes(serialization.Encoding.PEM)
    )
    private = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate is of the job, not of a host
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate.decode())
    with tempfile.TemporaryDirectory(prefix="tfhet-feed-") as folder:  # ssl reads private keys from files only
        path = Path(folder) / "job.pem"
        path.touch(mode=0o600)
        path.write_bytes(private + certificate)
        context.load_cert_chain(path)
    return context
