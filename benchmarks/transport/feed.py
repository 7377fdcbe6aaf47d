"""The feed of tfhet: a server of any Python, here of batches that lie in its memory, and its reader."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator

import numpy as np

from benchmarks.transport.end import sends
from benchmarks.transport.raw_socket import contents
from tfhet.bench.wire.end import End
from tfhet.planes.feed import FeedReader, FeedSource, Server, Shard

KEY = bytes(range(32))


def endless(shard: Shard, size: int) -> Iterator[np.ndarray]:
    """Batches of `size` bytes to serve, without end."""
    return itertools.cycle([np.frombuffer(batch, np.uint8) for batch in contents(size)])


def send(size: int) -> End:
    return _send(encrypted=False)


def receive(ports: list[int], size: int, rank: int, ranks: int) -> End:
    return _receive(ports, size, rank, ranks, encrypted=False)


def send_encrypted(size: int) -> End:
    return _send(encrypted=True)


def receive_encrypted(ports: list[int], size: int, rank: int, ranks: int) -> End:
    return _receive(ports, size, rank, ranks, encrypted=True)


def _send(encrypted: bool) -> End:
    """Serves at the `port` that it tells."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = Server(listener, f"127.0.0.1:{port}", KEY, encrypted)
    threading.Thread(target=server.run, args=(threading.Event(),), daemon=True).start()
    return sends({"port": port})


def _receive(ports: list[int], size: int, rank: int, ranks: int, encrypted: bool) -> End:
    source = FeedSource.of(endless, {"size": size})
    servers = [f"127.0.0.1:{port}" for port in ports]
    reader = FeedReader(servers, KEY, source, rank=rank, size=ranks, encrypted=encrypted)
    batches = reader.epoch(0)

    def pull(count: int) -> None:
        for _ in range(count):
            if (got := next(batches).batch.nbytes) != size:
                raise AssertionError(f"{got} bytes came instead of {size}")

    return End(pull, {"ahead": 2 * len(ports)}, reader.close)
