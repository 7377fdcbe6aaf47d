"""The two ends of a data plane in processes of their own: `python -m tfhet.bench.ends PLANE send|receive`.

    {"open": {...}}           -> what the other end, or the suite, has to know of this end
    {"ahead": n, "count": m}  -> {"seconds": s}: moved n batches and then m more, the m batches in s seconds

A sender holds batches of `size` bytes in memory, and a receiver moves them to its own memory.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import os
import secrets
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfhet.bench.child_process import answer_requests
from tfhet.clock import SYSTEM
from tfhet.cluster import free_ports
from tfhet.planes.feed import FeedReader, FeedSource, Server, Shard

HERE = "127.0.0.1"
OTHER_HOST = "another-host"
"""Host name of the receiver: with the sender's name it would get batches through shared memory instead of TCP."""
DATASET = "held"
HELD_BYTES = 32_000_000
"""Minimum bytes that a sender holds, so that small batches do not stay in a CPU's cache."""
KEY = bytes(range(32))
_SERVERS: list[Any] = []
"""Servers of this process; they stop when the last reference to them is gone."""


@dataclass(frozen=True)
class End:
    pull: Callable[[int], object] = lambda count: None
    """Returns once that number of further batches are in this process's memory."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The answer to `open`; JSON values."""
    close: Callable[[], None] = lambda: None
    """Ends the processes and threads that the end has started."""


Open = Callable[..., End]
Way = Mapping[str, Open]
"""The functions `send` (size, ...) and `receive` (size, ..., and the facts of the sender)."""


def held_count(size: int) -> int:
    return max(2, math.ceil(HELD_BYTES / size))


def contents(size: int) -> list[bytes]:
    draw = np.random.default_rng(0)
    return [draw.bytes(size) for _ in range(held_count(size))]


def send_service(size: int, encrypted: bool = False) -> End:
    """tf.data service with tfhet's wire; dispatcher and worker are this process."""
    from tfhet.planes.tf_service import Wire, whole_engine

    key, folder, (port, worker) = secrets.token_bytes(32), tempfile.TemporaryDirectory(), free_ports(2)
    wire, engine = Wire.join(key, HERE, folder=folder.name, encrypted=encrypted), whole_engine()
    dispatcher = f"{HERE}:{port}"
    _SERVERS.extend([engine.dispatcher(wire, port), engine.worker(wire, worker, HERE, dispatcher)])
    return End(facts={"dispatcher": dispatcher, "key": key.hex()}, close=folder.cleanup)


def receive_service(size: int, dispatcher: str, key: str, encrypted: bool = False) -> End:
    """Reads as a rank does. key: hexadecimal digits; "": TensorFlow's own servers."""
    import tensorflow as tf

    from tfhet.pipeline import without_autotune
    from tfhet.planes.tf_service import Transport, Wire

    wire = Wire.join(bytes.fromhex(key), OTHER_HOST, encrypted=encrypted) if key else Wire("grpc")
    transport = Transport()

    def batch(index: tf.Tensor) -> tf.Tensor:
        return tf.cast(
            tf.random.stateless_uniform([size], tf.stack([tf.cast(index, tf.int32), 0]), 0, 256, tf.int32), tf.uint8
        )

    # AutoGraph would leave a file in the temporary folder.
    make = tf.autograph.experimental.do_not_convert(batch)
    dataset = tf.data.Dataset.range(held_count(size)).map(make).cache().repeat()
    transport.publish(wire, dispatcher, dataset, DATASET)
    batches = iter(without_autotune(transport.read(wire, dispatcher, DATASET, dataset.element_spec, "off")))

    def pull(count: int) -> None:
        for _ in range(count):
            if (found := int(tf.size(next(batches)))) != size:
                raise ConnectionError(f"a batch of {found} bytes arrived instead of {size}")

    pull(2 * held_count(size))
    return End(pull, {"ahead": 4})


def feed_batches(shard: Shard, size: int) -> Iterator[np.ndarray]:
    """The function that the feed serves."""
    return itertools.cycle([np.frombuffer(batch, np.uint8) for batch in contents(size)])


def send_feed(size: int, encrypted: bool = False) -> End:
    listener = socket.create_server((HERE, 0))
    port = listener.getsockname()[1]
    server = Server(listener, f"{HERE}:{port}", KEY, encrypted)
    threading.Thread(target=server.run, args=(threading.Event(),), daemon=True).start()
    return End(facts={"port": port})


def receive_feed(size: int, port: int, encrypted: bool = False, shared: bool = False) -> End:
    """shared: whether batches arrive through shared memory instead of TCP."""
    source = FeedSource.of(feed_batches, {"size": size})
    host = HERE if shared else OTHER_HOST
    reader = FeedReader([f"{HERE}:{port}"], KEY, source, encrypted=encrypted, hosts=[HERE], host=host)
    received = reader.epoch(0)

    def pull(count: int) -> None:
        for _ in range(count):
            if (found := next(received).batch.nbytes) != size:
                raise ConnectionError(f"a batch of {found} bytes arrived instead of {size}")

    return End(pull, {"ahead": 2}, reader.close)


WAYS: Mapping[str, Way] = {
    "tf_service": {"send": send_service, "receive": receive_service},
    "feed": {"send": send_feed, "receive": receive_feed},
}


def with_encryption(way: Way) -> Way:
    return {name: functools.partial(opens, encrypted=True) for name, opens in way.items()}


def serve(opens: Open) -> None:
    """Opens an end and moves batches until the requests on standard input end; then ends this process."""
    opened: list[End] = []

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if "open" in request:
            opened.append(opens(**request["open"]))
            return opened[-1].facts
        end = opened[-1]
        end.pull(request["ahead"])
        begun_s = SYSTEM.monotonic()
        end.pull(request["count"])
        return {"seconds": SYSTEM.monotonic() - begun_s}

    answer_requests(handle)
    for end in opened:
        end.close()
    os._exit(0)  # threads of libraries may never end


if __name__ == "__main__":
    # Through the import system, so that the feed finds `feed_batches` by the module's name.
    serve(importlib.import_module("tfhet.bench.ends").WAYS[sys.argv[1]][sys.argv[2]])
