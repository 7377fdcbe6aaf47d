"""A TCP connection and nothing else: the least that moving bytes between two processes costs.

The sender writes batches that lie in its memory, as many as it is asked for; the receiver reads them into one place.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

import numpy as np

from benchmarks.transport.end import sends
from tfhet.bench.wire.end import End
from tfhet.bench.wire.reader import held_count

WAIT_S = 60.0
"""For a connection, or for the next bytes of a batch that was asked for."""
PIECE_BYTES = 1 << 20
"""Asked for at a time by the receiver."""
_COUNT = struct.Struct("!Q")


def contents(size: int) -> list[bytearray]:
    """The batches that are sent, of `size` bytes each, as many as tf.data service's worker holds."""
    draw = np.random.default_rng(0)
    return [bytearray(draw.bytes(size)) for _ in range(held_count(size))]


def send(size: int, wrap: Callable[[socket.socket], socket.socket] = lambda one: one) -> End:
    """Listens at the `port` that it tells, and serves one connection. wrap: encrypts it."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(WAIT_S)
    batches = contents(size)

    def serve() -> None:
        with server, contextlib.suppress(OSError):
            connection, _ = server.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with wrap(connection) as connection:
                at = 0
                while asked := connection.recv(_COUNT.size):
                    for _ in range(_COUNT.unpack(asked)[0]):
                        connection.sendall(batches[at % len(batches)])
                        at += 1

    threading.Thread(target=serve, name="sender", daemon=True).start()
    return sends({"port": server.getsockname()[1]})


def receive(port: int, size: int, wrap: Callable[[socket.socket], socket.socket] = lambda one: one) -> End:
    """Connects to the sender."""
    connection = wrap(socket.create_connection(("127.0.0.1", port), timeout=WAIT_S))
    place = memoryview(bytearray(size))

    def pull(count: int) -> None:
        if not count:
            return
        connection.sendall(_COUNT.pack(count))
        for _ in range(count):
            got = 0
            while got < size:
                came = connection.recv_into(place[got : got + PIECE_BYTES])
                if not came:
                    raise ConnectionError("the sender is gone")
                got += came

    return End(pull)
