"""The two ends of every way: `python -m benchmarks.transport.ends WAY send|receive` opens one and moves batches.

A sender reports how to reach it. A receiver moves batches of `size` bytes from the sender's memory to its own.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import socket
import struct
import sys
import threading
from typing import Any

from tfhet.bench import ends
from tfhet.bench.ends import HERE, End, Way, contents
from tfhet.cluster import free_ports

WAIT_S = 60.0
"""For a connection, or for the next bytes of a batch that was requested."""
PIECE_BYTES = 1 << 20
"""Most bytes that the receiver of `raw_socket` requests from the kernel at a time."""
_COUNT = struct.Struct("!Q")
_SERVERS: list[Any] = []
"""Servers of this process; they stop when the last reference to them is gone."""


def send_socket(size: int) -> End:
    """Writes as many batches as requested to one TCP connection, and does nothing else."""
    server = socket.create_server((HERE, 0))
    server.settimeout(WAIT_S)
    batches = itertools.cycle(contents(size))

    def run() -> None:
        with server, contextlib.suppress(OSError):
            connection, _ = server.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection:
                while asked := connection.recv(_COUNT.size):
                    for batch in itertools.islice(batches, _COUNT.unpack(asked)[0]):
                        connection.sendall(batch)

    threading.Thread(target=run, name="sender", daemon=True).start()
    return End(facts={"port": server.getsockname()[1]})


def receive_socket(size: int, port: int) -> End:
    """Reads all batches into the same memory."""
    connection = socket.create_connection((HERE, port), timeout=WAIT_S)
    place = memoryview(bytearray(size))

    def pull(count: int) -> None:
        if count:
            connection.sendall(_COUNT.pack(count))
        for _ in range(count):
            received = 0
            while received < size:
                if not (more := connection.recv_into(place[received : received + PIECE_BYTES])):
                    raise ConnectionError("the sender has closed the connection")
                received += more

    return End(pull)


def send_stock(size: int) -> End:
    """tf.data service as TensorFlow ships it. Its servers listen on all interfaces."""
    from tensorflow.data.experimental.service import DispatcherConfig, DispatchServer, WorkerConfig, WorkerServer

    (port,) = free_ports(1)
    _SERVERS.append(DispatchServer(DispatcherConfig(port=port)))
    _SERVERS.append(WorkerServer(WorkerConfig(dispatcher_address=f"{HERE}:{port}", heartbeat_interval_ms=1_000)))
    return End(facts={"dispatcher": f"{HERE}:{port}", "key": ""})


WAYS: dict[str, Way] = {
    "raw_socket": {"send": send_socket, "receive": receive_socket},
    "service_stock": {"send": send_stock, "receive": ends.receive_service},
    "service": ends.WAYS["tf_service"],
    "service_encrypted": ends.with_encryption(ends.WAYS["tf_service"]),
    "feed": ends.WAYS["feed"],
    "feed_encrypted": ends.with_encryption(ends.WAYS["feed"]),
    "feed_shared": {"send": ends.send_feed, "receive": functools.partial(ends.receive_feed, shared=True)},
}

if __name__ == "__main__":
    ends.serve(WAYS[sys.argv[1]][sys.argv[2]])
