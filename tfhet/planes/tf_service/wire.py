"""Authenticates and encrypts tf.data service with the key of the job's data plane.

    wire = Wire.join(key, "algo-1", folder="/tmp/sockets")
    register_dataset(f"{wire.protocol}://algo-2:6000", data)

A compiled library gives TensorFlow a protocol of the job's own (tfhet/native/wire). gRPC listens on a socket file that
only this user can open; what others reach at a server's port is a listener of the library's, which lets in who proves
the key. Control connections are encrypted. Batches go by a transfer protocol, in memory that both processes have where
they are on one host.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tfhet import native
from tfhet.clock import SYSTEM
from tfhet.errors import UsageError
from tfhet.planes.process import KEY_BYTES, key_from

_AFTER_S = 0.3
"""Seconds after which the reader's destructor has begun, so that it sends no further request."""
_STILL_S = 1.0  # without Python code, after which the end of Python waits for a reader
_BEAT_S = 0.05


@dataclass(frozen=True)
class Wire:
    """This process's part in the wire of one job."""

    protocol: str
    """TensorFlow's name of the job's protocol: before addresses of dispatchers, in configurations and in readers."""

    @classmethod
    def join(cls, key: bytes, address: str, *, listen: str = "", folder: str = "", encrypted: bool = False) -> Wire:
        """Joins with the job's key, 32 bytes. Raises UsageError if the library is missing.

        address: by which other hosts dial this one. listen: at which its servers listen, if another. folder: of their
        socket files, which only this user may enter. encrypted: whether batches are, as control connections."""
        if folder:  # as a path that is short enough for a socket, for as long as this process lives
            folder = f"/proc/self/fd/{os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)}"
        protocol = ctypes.create_string_buffer(32)
        given = (address.encode(), (listen or address).encode(), os.fsencode(folder))
        if len(key) != KEY_BYTES or _library().tfhet_wire_join(key, int(encrypted), *given, protocol):
            raise UsageError("the data service cannot join its job: see the line above")
        return cls(protocol.value.decode())

    @contextlib.contextmanager
    def hang_up(self) -> Iterator[None]:
        """`with wire.hang_up(): del reader`: ends pending requests. The destructor of a reader waits for their answers
        and holds Python's lock, but a frozen worker never answers, nor a new dispatcher (TF 2.15.1)."""
        _library().tfhet_wire_hang_up(self.protocol.encode(), ctypes.c_double(_AFTER_S))
        yield


@functools.cache
def leave_at_exit(wire: Wire) -> None:
    """From now on, no reader that is left holds this process up at its end, after the exit handlers."""
    name, ends = wire.protocol.encode(), threading.Event()

    def beat() -> None:  # while Python code runs: after the exit handlers no thread does
        ends.wait()
        while True:
            _library().tfhet_wire_beat(name)
            SYSTEM.sleep(_BEAT_S)

    def end() -> None:
        ends.set()
        _library().tfhet_wire_leave(name, ctypes.c_double(_STILL_S))

    threading.Thread(target=beat, name="tfhet-exit", daemon=True).start()
    atexit.register(end)


@functools.cache
def _library() -> ctypes.CDLL:
    path = native.wire_library()
    if path is None:
        raise UsageError(
            "tf.data service needs a library that this host can neither take from the wheel nor build: install a C++ "
            "compiler (Debian: g++), or train with --data_plane local"
        )
    return ctypes.CDLL(str(path))


_own: dict[str, Wire] = {}


def of_rank(address: str, encrypted: bool, env: Mapping[str, str]) -> Wire:
    """The wire of this rank's process, with the key that its launcher sends it first of all. Raises NotReady where none
    comes, UsageError as `Wire.join` does."""
    if "wire" not in _own:
        _own["wire"] = Wire.join(key_from(env), address, encrypted=encrypted)
    return _own["wire"]
