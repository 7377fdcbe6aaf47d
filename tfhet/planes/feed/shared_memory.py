"""Batches in memory that a reader shares with a server of its host, over a UNIX socket without a file.

The server writes the buffers of a message into a segment and sends the segment's number. The descriptor of a new
segment follows the frame. The reader's arrays are views of the segment. When the last one is gone, the reader releases
the segment with its next frame, and the server uses it for another batch. The data of a message without a segment are
in the frame, as over TCP.

A segment is a memory file: it has no name, it does not depend on /dev/shm, and the kernel frees it with the last
process that has it.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import fcntl
import mmap
import os
import socket
import struct
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from tfhet.planes.feed.connection import FeedConnection
from tfhet.planes.feed.frame import MOST_HEADER, MOST_SEGMENTS, Allocate, Header, Segment, padded
from tfhet.schema import MessageError
from tfhet.secure import HANDSHAKE_S, Purpose, Records, derived_key

LEAST_SHARED = 4096
"""Minimum bytes of a message in a segment."""
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_ssize_t]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED = ctypes.c_void_p(-1).value
_PEER = struct.Struct("3i")
"""The process, user and group of SO_PEERCRED."""


class NoSharedMemory(ConnectionError):
    """This process cannot map a segment, for example because too many files are open."""


def local_listener(key: bytes, address: str) -> socket.socket | None:
    """Returns a socket that listens for readers of this host; None if there can be none. address: see `Server`."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(_name(key, address))
        sock.listen()
        return sock
    except OSError:  # readers use TCP
        sock.close()
        return None


def dial(address: str, key: bytes, encrypted: bool, is_local: bool) -> FeedConnection:
    """Connects to a server by shared memory if it is on this host and in this network namespace, otherwise by TCP.
    Raises the errors of `FeedConnection.dial`."""
    if is_local:
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            end.settimeout(HANDSHAKE_S)
            end.connect(_name(key, address))
            credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            if _PEER.unpack(credentials)[1] == os.geteuid():  # /proc/net/unix shows the name to all users
                return LocalConnection.of_client(end, key, Purpose.FEED_SHARED_MEMORY, address)
        except OSError:
            pass
        end.close()
    return FeedConnection.dial(address, key, encrypted)


def _name(key: bytes, address: str) -> bytes:
    """Returns the name of a server's UNIX socket, which exists without a file."""
    return b"\0tfhet-" + derived_key(key, f"shared feed {address}")[:16].hex().encode()


class LocalConnection(FeedConnection):
    """A connection to a process of this host, whose frames have their data in segments."""

    def __init__(self, end: socket.socket, records: Records):
        super().__init__(end, records)
        self._written, self._mapped = _WrittenSegments(), _MappedSegments()

    def send(self, messages: Sequence[tuple[Header, Sequence[memoryview]]]) -> None:
        frame, descriptors = list[tuple[Header, Sequence[memoryview]]](), list[int]()
        with contextlib.ExitStack() as stack:
            for header, buffers in messages:
                if buffers and (found := self._written.write(*padded(buffers))) is not None:
                    segment, descriptor = found
                    header, buffers = msgspec.structs.replace(header, segment=segment), ()
                    if descriptor is not None:
                        stack.callback(os.close, descriptor)
                        descriptors.append(descriptor)
                frame.append((header, buffers))
            if released := self._mapped.take_released():
                frame[0] = msgspec.structs.replace(frame[0][0], released=released), frame[0][1]
            super().send(frame)
            for descriptor in descriptors:
                socket.send_fds(self._end, [b"\0"], [descriptor])

    def receive(self, kinds: Any, most: int = MOST_HEADER) -> list[Any]:
        messages = super().receive(kinds, most)
        for message in messages:
            self._written.release(message.released)
        return messages

    def receive_data(self, messages: Sequence[Header], allocate: Allocate, may_share: bool = False) -> list[np.ndarray]:
        memories = super().receive_data(messages, allocate, may_share)
        for at, message in enumerate(messages):
            if (segment := message.segment) is not None:
                if segment.is_new:
                    self._mapped.add(segment, self._receive_descriptor())
                memories[at] = self._mapped.view(segment)
                if not may_share:
                    memories[at] = _copied(memories[at], allocate)
        return memories

    def _receive_descriptor(self) -> int:
        try:
            sent, descriptors, _, _ = socket.recv_fds(self._end, 1, 1)
        except BlockingIOError:
            raise TimeoutError("nothing was received for too long") from None
        if not sent:
            raise ConnectionError("the other side has closed the connection")
        if not descriptors:
            raise NoSharedMemory("the descriptor of shared memory was not received; are too many files open?")
        return descriptors[0]


def _copied(memory: np.ndarray, allocate: Allocate) -> np.ndarray:
    copy = allocate(memory.size)
    np.copyto(copy, memory)
    return copy


def _memory_file(size: int) -> tuple[int, np.ndarray]:
    """Returns the descriptor of a new memory file and its memory, uint8, at least `size` bytes. Raises OSError."""
    size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    descriptor = os.memfd_create("tfhet-batch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, size)  # without it, missing memory would end this process later
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        return descriptor, np.frombuffer(_map(descriptor, size), np.uint8)
    except BaseException:
        os.close(descriptor)
        raise


def _map(descriptor: int, size: int) -> ctypes.Array[ctypes.c_uint8]:
    """Maps a memory file. `mmap.mmap` would keep a descriptor for each, which the user's code may need for files."""
    access, kind = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | mmap.MAP_POPULATE
    address = _LIBC.mmap(None, size, access, kind, descriptor, 0)
    if address == _FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    memory = (ctypes.c_uint8 * size).from_address(address)
    weakref.finalize(memory, _LIBC.munmap, address, size).atexit = False
    return memory


class _WrittenSegments:
    """The segments that this side of a connection writes. One thread may write while another one releases."""

    def __init__(self) -> None:
        self._memories: list[np.ndarray] = []
        self._free: list[int] = []
        """Numbers of the segments that are not in use, in the order of their release."""
        self._lock = threading.Lock()

    def write(self, pieces: Sequence[memoryview], size: int) -> tuple[Segment, int | None] | None:
        """Writes the buffers of a message, `size` bytes, into a segment. Returns the descriptor of a new segment with
        it, which the caller must close. Returns None if no segment can be used."""
        with self._lock:
            fitting = [one for one in self._free if size <= self._memories[one - 1].size <= 2 * size + mmap.PAGESIZE]
            number = fitting[-1] if fitting else (self._free or [len(self._memories) + 1])[0]
            if size < LEAST_SHARED or number > MOST_SEGMENTS:
                return None
            self._free = [one for one in self._free if one != number]
        descriptor = None
        if not fitting:
            try:
                descriptor, memory = _memory_file(size)
            except OSError:  # no memory, or too many open files
                if number <= len(self._memories):
                    self.release([number])
                return None
            self._memories[number - 1 : number] = [memory]
        begin = 0
        for piece in pieces:
            np.copyto(self._memories[number - 1][begin : begin + len(piece)], piece)
            begin += len(piece)
        return Segment(number, size, is_new=descriptor is not None), descriptor

    def release(self, numbers: Sequence[int]) -> None:
        """Notes that nothing refers to segments any more. Raises MessageError for a segment that is not in use."""
        with self._lock:
            for number in numbers:
                if number > len(self._memories) or number in self._free:
                    raise MessageError(f"segment {number} was released, but it was not in use")
                self._free.append(number)


class _MappedSegments:
    """The segments of the other side. Arrays in them outlive the connection."""

    def __init__(self) -> None:
        self._maps: dict[int, ctypes.Array[ctypes.c_uint8]] = {}
        self._released = collections.deque[int]()

    def add(self, segment: Segment, descriptor: int) -> None:
        """Maps a new segment, and closes its descriptor. Raises NoSharedMemory, and MessageError for another file."""
        try:
            if ~fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS:  # a shorter file would end this process
                raise MessageError("a segment whose length can change")
            size = os.fstat(descriptor).st_size
            self._maps[segment.number] = _map(descriptor, size)
        except OSError as error:
            raise NoSharedMemory(f"shared memory cannot be mapped: {error}") from None
        finally:
            os.close(descriptor)

    def view(self, segment: Segment) -> np.ndarray:
        """Returns the buffers of a message, uint8 [segment.size]. The segment is released with the last array in it.
        Raises MessageError."""
        memory = self._maps.get(segment.number)
        if memory is None or segment.size > len(memory):
            raise MessageError(f"{segment.size} bytes in segment {segment.number}, which is not so long")
        view = np.frombuffer(memory, np.uint8, segment.size)
        weakref.finalize(view, self._released.append, segment.number).atexit = False
        return view

    def take_released(self) -> tuple[int, ...]:
        return tuple(self._released.popleft() for _ in range(len(self._released)))
