"""Arrow Flight: one call, answered with a stream of record batches, whose bytes lie in the sender's memory already."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from benchmarks.transport.end import sends
from benchmarks.transport.raw_socket import contents
from tfhet.bench.wire.end import End


def send(size: int) -> End:
    """Serves at the `port` that it tells."""
    import pyarrow
    from pyarrow import flight

    schema = pyarrow.schema([("batch", pyarrow.uint8())])
    batches = [
        pyarrow.RecordBatch.from_arrays(
            [pyarrow.UInt8Array.from_buffers(pyarrow.uint8(), size, [None, pyarrow.py_buffer(batch)])], schema=schema
        )
        for batch in contents(size)
    ]

    class Server(flight.FlightServerBase):
        def do_get(self, context: Any, ticket: Any) -> Any:
            # A generator would hand over each batch from Python; a reader is drained by Arrow's own threads.
            reader = pyarrow.RecordBatchReader.from_batches(schema, itertools.cycle(batches))
            return flight.RecordBatchStream(reader)

    server = Server("grpc://127.0.0.1:0")
    threading.Thread(target=server.serve, name="sender", daemon=True).start()
    return sends({"port": server.port})


def receive(port: int, size: int) -> End:
    """Takes batches in the memory in which Flight received them; gRPC's windows let the sender run ahead."""
    from pyarrow import flight

    client = flight.connect(f"grpc://127.0.0.1:{port}")
    batches = client.do_get(flight.Ticket(b""))

    def pull(count: int) -> None:
        for _ in range(count):
            if (got := batches.read_chunk().data.column(0).buffers()[1].size) != size:
                raise ConnectionError(f"{got} bytes came instead of {size}")

    return End(pull, {"ahead": 1}, client.close)
