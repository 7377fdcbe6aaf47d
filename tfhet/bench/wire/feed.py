"""The two ends of the feed: a server with batches in its memory, and the reader of one rank."""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections.abc import Iterator

import numpy as np

from tfhet.bench.wire.end import End
from tfhet.bench.wire.reader import held_count
from tfhet.planes.feed import FeedReader, FeedSource, Server, Shard

_KEY = bytes(range(32))


def batches(shard: Shard, size: int) -> Iterator[np.ndarray]:
    """The function that the feed serves: batches of `size` bytes, without end."""
    return itertools.cycle([np.frombuffer(os.urandom(size), np.uint8) for _ in range(held_count(size))])


def send() -> End:
    """Serves batches at the `port` of its facts."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = Server(listener, f"127.0.0.1:{port}", _KEY, encrypted=False)
    threading.Thread(target=server.run, args=(threading.Event(),), daemon=True).start()
    return End(lambda count: None, {"port": port})


def receive(port: int, size: int) -> End:
    reader = FeedReader([f"127.0.0.1:{port}"], _KEY, FeedSource.of(batches, {"size": size}), rank=0, size=1)
    received = reader.epoch(0)

    def pull(count: int) -> None:
        for _ in range(count):
            next(received)

    return End(pull, close=reader.close)
