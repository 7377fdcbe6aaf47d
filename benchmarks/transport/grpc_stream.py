"""gRPC (grpcio) as AWS's PyTorch example uses it: one call, answered with a stream of pickled batches."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.transport.end import sends
from benchmarks.transport.raw_grpc import METHOD, OPTIONS, serve
from benchmarks.transport.raw_socket import contents
from tfhet.bench.wire.end import End


def send(size: int) -> End:
    """Serves at the `port` that it tells."""
    import grpc

    batches = [np.frombuffer(batch, np.uint8) for batch in contents(size)]

    def every(request: bytes, context: Any) -> Iterator[bytes]:
        return map(pickle.dumps, itertools.cycle(batches))

    return sends({"port": serve(grpc.unary_stream_rpc_method_handler(every))})


def receive(port: int, size: int) -> End:
    """Connects to the sender; HTTP/2's windows let it run ahead by some batches."""
    import grpc

    channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS)
    batches = channel.unary_stream("/{}/{}".format(*METHOD))(b"", wait_for_ready=True)

    def pull(count: int) -> None:
        for _ in range(count):
            if (got := pickle.loads(next(batches)).nbytes) != size:
                raise ConnectionError(f"{got} bytes came instead of {size}")

    return End(pull, {"ahead": 1}, channel.close)
