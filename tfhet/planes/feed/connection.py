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

_HEAD = 1024
"""Bytes to receive at the beginning of a frame; the part that belongs to its buffers is copied."""
_AT_ONCE = 64
"""Buffers in one system call; Linux allows 1024."""


def purpose(encrypted: bool) -> Purpose:
    return Purpose.ENCRYPTED_FEED if encrypted else Purpose.FEED


class FeedConnection:
    """A socket for frames. One thread may send while another one receives."""

    def __init__(self, end: socket.socket | TlsSocket, records: Records):
        self._end, self._records = end, records
        self._head = memoryview(bytearray(_HEAD))
        self._held = self._head[:0]
        """Bytes that were received with the last header and belong to the data after it."""

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
        got = self._at_least(Records.HEAD)
        size, rest = self._records.lengths(got, most)
        end = Records.HEAD + size + TAG_BYTES
        if got.nbytes < end:
            got = self._at_least(end)
        self._held = got[end:] if got.nbytes > end else self._head[:0]  # frees the memory of a long header
        return headers_of(self._records.opened(got[Records.HEAD : end]), rest, kinds)

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
