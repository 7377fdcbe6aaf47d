"""A connection of the feed: an authenticated connection (`tfhet.secure`), which carries frames as records.

The message of a record is the frame's headers, with spaces up to PREFIX bytes of the record, so that the reader mostly
receives it at once. Its data are the buffers.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from tfhet.planes.feed.frame import MOST_HEADER, Allocate, Header, headers_of, joined
from tfhet.secure import HANDSHAKE_S, TAG_BYTES, EncryptedRecords, Purpose, Records, as_client, perform_handshake

PREFIX = 320
"""Minimum length of a record without its data."""
_NO_MEMORY = np.empty(0, np.uint8)
_AT_ONCE = 64
"""Buffers in one system call; Linux allows 1024."""


def purpose(encrypted: bool) -> Purpose:
    return Purpose.ENCRYPTED_FEED if encrypted else Purpose.FEED


class FeedConnection:
    """A socket for frames. One thread may send while another one receives."""

    def __init__(self, end: socket.socket, records: Records):
        """end: blocking socket after the handshake."""
        if end.family != socket.AF_UNIX:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._end, self._records = end, records
        self._prefix = memoryview(bytearray(PREFIX))

    @classmethod
    def dial(cls, address: str, key: bytes, encrypted: bool, limit_s: float = HANDSHAKE_S) -> Self:
        """Connects to HOST:PORT as a reader. Raises OSError, MessageError for a server of another version,
        Unauthenticated if the server has another key, and MissingPackage if encryption needs a package."""
        host, _, port = address.rpartition(":")
        end = socket.create_connection((host.strip("[]"), int(port)), timeout=limit_s)
        return cls.of_client(end, key, purpose(encrypted), address, limit_s)

    @classmethod
    def of_client(
        cls, end: socket.socket, key: bytes, purpose: Purpose, address: str, limit_s: float = HANDSHAKE_S
    ) -> Self:
        """Does the handshake of a reader on a connected socket. Raises the errors of `dial`, and closes the socket."""
        try:
            return cls(end, perform_handshake(end, as_client(key, purpose, address), limit_s))
        except BaseException:
            end.close()
            raise

    def silent_after(self, limit_s: float) -> None:
        """Makes `receive` raise TimeoutError after `limit_s` seconds of silence."""
        whole = int(limit_s)  # the kernel's timeout: Python's would double the system calls
        limit = struct.pack("@ll", whole, int(1e6 * (limit_s - whole)))
        self._end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def send(self, messages: Sequence[tuple[Header, Sequence[memoryview]]]) -> None:
        """Sends a frame. Raises OSError."""
        head, buffers, size = joined(messages, PREFIX - Records.HEAD - TAG_BYTES)
        sealed = self._records.sealed(head, size)
        if isinstance(self._records, EncryptedRecords):
            chunks = itertools.chain.from_iterable(map(self._records.sealed_data, buffers))
            self._write([sealed, *itertools.islice(chunks, 1)])
            for chunk in chunks:
                self._end.sendall(chunk)
        else:
            self._write([sealed, *itertools.chain.from_iterable(buffers)])

    def _write(self, pieces: Iterable[bytes | memoryview]) -> None:
        left = [memoryview(piece) for piece in pieces]
        while left:
            left = _without(self._end.sendmsg(left[:_AT_ONCE]), left)

    def receive(self, kinds: Any, most: int = MOST_HEADER) -> list[Any]:
        """Receives the headers of the next frame, of the types `kinds` and at most `most` bytes. The caller must
        receive their buffers with `receive_data`. Raises OSError, Forged, and MessageError for other headers."""
        self._fill(self._prefix)
        size, rest = self._records.lengths(self._prefix, most)
        end = Records.HEAD + size + TAG_BYTES
        body = self._prefix[Records.HEAD : end]
        if end > PREFIX:
            body = memoryview(bytearray(body) + bytes(end - PREFIX))
            self._fill(body[PREFIX - Records.HEAD :])
        return headers_of(self._records.opened(body), rest, kinds)

    def receive_data(self, messages: Sequence[Header], allocate: Allocate, may_share: bool = False) -> list[np.ndarray]:
        """Receives the buffers of all messages of a frame, uint8 [size] each, in memory of `allocate`. may_share:
        whether they may also be in shared memory. Raises OSError, and Forged if the data are encrypted."""
        memories = [allocate(message.size) if message.size else _NO_MEMORY for message in messages]
        for memory in memories:
            if isinstance(self._records, EncryptedRecords):
                self._records.open_data(self._fill, memory.data)
            else:
                self._fill(memory.data)
        return memories

    def _fill(self, memory: memoryview) -> None:
        received, size = 0, len(memory)
        while received < size:
            try:
                more = self._end.recv_into(memory[received:] if received else memory, 0, socket.MSG_WAITALL)
            except BlockingIOError:
                raise TimeoutError("nothing was received for too long") from None
            if not more:
                raise ConnectionError("the other side has closed the connection")
            received += more

    def close(self) -> None:
        """Wakes the threads that wait for this connection, and closes it."""
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()


def _without(count: int, pieces: list[memoryview]) -> list[memoryview]:
    """Returns pieces without their first `count` bytes."""
    for at, piece in enumerate(pieces):
        if count < piece.nbytes:
            return [piece[count:], *pieces[at + 1 :]]
        count -= piece.nbytes
    return []
