"""gRPC (grpcio) without tf.data: a call for each batch, answered with its bytes, one call at a time as tf.data
service's client makes them to a worker."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.transport.end import sends
from benchmarks.transport.raw_socket import WAIT_S, contents
from tfhet.bench.wire.end import End

METHOD = ("tfhet.Wire", "Next")
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


def send(size: int) -> End:
    """Serves at the `port` that it tells."""
    import grpc

    batches = [bytes(batch) for batch in contents(size)]
    at = 0

    def next_batch(request: bytes, context: Any) -> bytes:
        nonlocal at
        at += 1
        return batches[at % len(batches)]

    return sends({"port": serve(grpc.unary_unary_rpc_method_handler(next_batch))})


def serve(handler: Any) -> int:
    """Starts a server whose METHOD `handler` answers, which ends with this process. Returns its port."""
    import grpc

    service, method = METHOD
    server = grpc.server(ThreadPoolExecutor(1), options=OPTIONS)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    _SERVERS.append(server)  # it would stop with the last reference to it
    return int(port)


_SERVERS: list[Any] = []


def receive(port: int, size: int) -> End:
    """Connects to the sender."""
    import grpc

    channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS)
    call = channel.unary_unary("/{}/{}".format(*METHOD))

    def pull(count: int) -> None:
        for _ in range(count):
            if (got := len(call(b"", timeout=WAIT_S, wait_for_ready=True))) != size:
                raise ConnectionError(f"{got} bytes came instead of {size}")

    return End(pull)
