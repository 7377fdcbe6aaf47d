"""A connection of the feed: an authenticated connection (`tfhet.secure`), which carries frames as records.

The message of a record is the frame's headers, its data are the buffers. If batches are encrypted, TLS 1.3 is between
the handshake and the records.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Sequence
from typing import Any

from tfhet.planes.feed.frame import MOST_HEADER, Header, headers_of, joined
from tfhet.secure import HANDSHAKE_S, TAG_BYTES, Purpose, Records, TlsSocket, as_client, perform_handshake

_AT_ONCE = 64
"""Buffers in one system call; Linux allows 1024."""


def purpose(encrypted: bool) -> Purpose:
    return Purpose.ENCRYPTED_FEED if encrypted else Purpose.FEED


class FeedConnection:
    """A socket for frames. One thread may send while another one receives."""

    def __init__(self, end: socket.socket | TlsSocket, records: Records):
        self._end, self._records = end, records
        self._head = memoryview(bytearray(Records.HEAD))

    @classmethod
    def dial(cls, address: str, key: bytes, encrypted: bool, limit_s: float = HANDSHAKE_S) -> FeedConnection:
        """Connects to HOST:PORT as a reader. Raises OSError, MessageError for a server of another version, and
        Unauthenticated if the server has another key."""
        host, _, port = address.rpartition(":")
        end = socket.create_connection((host.strip("[]"), int(port)), timeout=limit_s)
        try:
            records = perform_handshake(end, as_client(key, purpose(encrypted), address), limit_s)
            return cls.secured(end, records, key, encrypted, is_server=False)
        except BaseException:
            end.close()
            raise

    @classmethod
    def secured(
        cls, end: socket.socket, records: Records, key: bytes, encrypted: bool, *, is_server: bool
    ) -> FeedConnection:
        """Returns the connection of a blocking socket after the handshake. Raises OSError; the caller closes `end`
        then."""
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(TlsSocket(end, key, is_server) if encrypted else end, records)

    def silent_after(self, limit_s: float) -> None:
        """Makes `receive` raise TimeoutError after `limit_s` seconds of silence."""
        if isinstance(self._end, TlsSocket):
            self._end.settimeout(limit_s)
        else:  # the kernel's timeout: Python's would double the system calls
            whole = int(limit_s)
            limit = struct.pack("@ll", whole, int(1e6 * (limit_s - whole)))
            self._end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def send(self, messages: Sequence[tuple[Header, Sequence[memoryview]]]) -> None:
        """Sends a frame. Raises OSError."""
        head, buffers, size = joined(messages)
        pieces = [memoryview(self._records.sealed(head, size)), *buffers]
        if isinstance(self._end, TlsSocket):
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
        receive their buffers with `receive_into`. Raises OSError, Forged, and MessageError for other headers."""
        self.receive_into([self._head])
        size, rest = self._records.lengths(self._head, most)
        body = memoryview(bytearray(size + TAG_BYTES))
        self.receive_into([body])
        return headers_of(self._records.opened(body), rest, kinds)

    def receive_into(self, memories: Sequence[memoryview]) -> None:
        """Fills all memories. Raises OSError."""
        left = [memory for memory in memories if memory.nbytes]
        while left:
            left = _without(_received(self._end, left[:_AT_ONCE], socket.MSG_WAITALL), left)

    def close(self) -> None:
        """Wakes the threads that wait for this connection, and closes it."""
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()


def _received(end: socket.socket | TlsSocket, memories: list[memoryview], flags: int) -> int:
    """Receives at least one byte into the memories, in order, and returns the number of bytes."""
    try:
        if isinstance(end, TlsSocket) or len(memories) == 1:
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
