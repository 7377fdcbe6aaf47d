"""ZeroMQ, DEALER to ROUTER: the receiver asks for a number of batches, and takes each in memory of its own."""

from __future__ import annotations

import struct
import threading
from itertools import cycle
from typing import Any

from benchmarks.transport.end import sends
from benchmarks.transport.raw_socket import WAIT_S, contents
from tfhet.bench.wire.end import End

_COUNT = struct.Struct("!Q")
MOST_HELD = 2
"""Messages in the queue of a socket; it counts no bytes."""


def send(size: int) -> End:
    """Listens at the `port` that it tells."""
    import zmq

    router: Any = zmq.Context.instance().socket(zmq.ROUTER)
    router.setsockopt(zmq.SNDHWM, MOST_HELD)
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)  # else what finds no room is dropped
    port = router.bind_to_random_port("tcp://127.0.0.1")
    batches = cycle(contents(size))

    def serve() -> None:
        while True:
            who, asked = router.recv_multipart()
            for _ in range(_COUNT.unpack(asked)[0]):
                router.send_multipart([who, next(batches)], copy=False)

    threading.Thread(target=serve, name="sender", daemon=True).start()
    return sends({"port": port})


def receive(port: int, size: int) -> End:
    """Takes batches without a copy of its own: in the memory in which ZeroMQ received them."""
    import zmq

    dealer: Any = zmq.Context.instance().socket(zmq.DEALER)
    dealer.setsockopt(zmq.RCVHWM, MOST_HELD)
    dealer.setsockopt(zmq.RCVTIMEO, int(1e3 * WAIT_S))
    dealer.connect(f"tcp://127.0.0.1:{port}")

    def pull(count: int) -> None:
        if count:
            dealer.send(_COUNT.pack(count))
        for _ in range(count):
            if (got := dealer.recv(copy=False).buffer.nbytes) != size:
                raise AssertionError(f"{got} bytes came instead of {size}")

    return End(pull)
