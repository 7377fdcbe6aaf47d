"""The two ends of every way: `python -m benchmarks.transport.ends WAY send|receive` opens one and moves batches.

A sender reports how to reach it. A receiver moves batches of `size` bytes from the sender's memory to its own.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tfhet.bench.wire.end import End, serve
from tfhet.bench.wire.reader import held_count, read
from tfhet.cluster import free_ports
from tfhet.planes.feed import FeedReader, FeedSource, Server, Shard

HERE = "127.0.0.1"
WAIT_S = 60.0
"""For a connection, or for the next bytes of a batch that was requested."""
PIECE_BYTES = 1 << 20
"""Most bytes that the receiver of `raw_socket` requests from the kernel at a time."""
KEY = bytes(range(32))
_COUNT = struct.Struct("!Q")
_SERVERS: list[Any] = []
"""Servers of this process; they stop when the last reference to them is gone."""


def contents(size: int) -> list[bytearray]:
    """Returns the batches that are sent, as many as a worker of tf.data service holds."""
    draw = np.random.default_rng(0)
    return [bytearray(draw.bytes(size)) for _ in range(held_count(size))]


def _sends(**facts: Any) -> End:
    return End(lambda count: None, facts)


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
    return _sends(port=server.getsockname()[1])


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
    return _sends(dispatcher=f"{HERE}:{port}", key="")


def send_service(size: int, encrypted: bool) -> End:
    """tf.data service with tfhet's wire; dispatcher and worker are one process."""
    from tfhet.planes.tf_service import Wire
    from tfhet.planes.tf_service.engine import whole_engine

    key, folder, (port, worker) = secrets.token_bytes(32), tempfile.TemporaryDirectory(), free_ports(2)
    wire, engine = Wire.join(key, HERE, folder=folder.name, encrypted=encrypted), whole_engine()
    dispatcher = f"{HERE}:{port}"
    _SERVERS.extend([engine.dispatcher(wire, port), engine.worker(wire, worker, HERE, dispatcher)])
    end = _sends(dispatcher=dispatcher, key=key.hex())
    return End(end.pull, end.facts, folder.cleanup)


def receive_service(size: int, dispatcher: str, key: str, encrypted: bool) -> End:
    end = read(key, dispatcher, 1, 0, "uint8", size, "none", encrypted=encrypted)
    return End(end.pull, {"ahead": 4}, end.close)


def batches(shard: Shard, size: int) -> Iterator[np.ndarray]:
    """The function that the feed serves."""
    return itertools.cycle([np.frombuffer(batch, np.uint8) for batch in contents(size)])


def send_feed(size: int, encrypted: bool) -> End:
    listener = socket.create_server((HERE, 0))
    port = listener.getsockname()[1]
    server = Server(listener, f"{HERE}:{port}", KEY, encrypted)
    threading.Thread(target=server.run, args=(threading.Event(),), daemon=True).start()
    return _sends(port=port)


def receive_feed(size: int, port: int, encrypted: bool) -> End:
    source = FeedSource.of(batches, {"size": size})
    reader = FeedReader([f"{HERE}:{port}"], KEY, source, rank=0, size=1, encrypted=encrypted)
    received = reader.epoch(0)

    def pull(count: int) -> None:
        for _ in range(count):
            if (found := next(received).batch.nbytes) != size:
                raise ConnectionError(f"a batch of {found} bytes arrived instead of {size}")

    return End(pull, {"ahead": 2}, reader.close)


WAYS: dict[str, dict[str, Callable[..., End]]] = {
    "raw_socket": {"send": send_socket, "receive": receive_socket},
    "service_stock": {"send": send_stock, "receive": partial(receive_service, encrypted=False)},
    "service": {"send": partial(send_service, encrypted=False), "receive": partial(receive_service, encrypted=False)},
    "service_encrypted": {
        "send": partial(send_service, encrypted=True),
        "receive": partial(receive_service, encrypted=True),
    },
    "feed": {"send": partial(send_feed, encrypted=False), "receive": partial(receive_feed, encrypted=False)},
    "feed_encrypted": {"send": partial(send_feed, encrypted=True), "receive": partial(receive_feed, encrypted=True)},
}

if __name__ == "__main__":
    serve(WAYS[sys.argv[1]][sys.argv[2]])
