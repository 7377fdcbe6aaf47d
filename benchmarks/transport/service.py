"""tf.data service in three more ways: as TensorFlow ships it (gRPC, open to everybody), and tfhet's wire encrypted, and
between two processes of one host. Dispatcher and worker are one process."""

from __future__ import annotations

import secrets
import tempfile
from typing import Any

from benchmarks.transport.end import sends
from tfhet.bench.wire.end import End
from tfhet.bench.wire.reader import read
from tfhet.cluster import free_ports

HERE = "127.0.0.1"
_SERVERS: list[Any] = []
"""Those of this process, which end with it."""


def send_open(size: int) -> End:
    """TensorFlow's own servers, which listen on all interfaces."""
    from tensorflow.data.experimental.service import DispatcherConfig, DispatchServer, WorkerConfig, WorkerServer

    (port,) = free_ports(1)
    servers = [DispatchServer(DispatcherConfig(port=port))]
    servers.append(WorkerServer(WorkerConfig(dispatcher_address=f"{HERE}:{port}", heartbeat_interval_ms=1_000)))
    _SERVERS.extend(servers)
    return sends({"dispatcher": f"{HERE}:{port}"})


def send_encrypted(size: int) -> End:
    return _send(encrypted=True)


def send_shared(size: int) -> End:
    return _send(encrypted=False)


def _send(encrypted: bool) -> End:
    from tfhet.planes.tf_service import Wire
    from tfhet.planes.tf_service.engine import whole_engine

    key, folder, (port, worker) = secrets.token_bytes(32), tempfile.TemporaryDirectory(), free_ports(2)
    wire, engine = Wire.join(key, HERE, folder=folder.name, encrypted=encrypted), whole_engine()
    dispatcher = f"{HERE}:{port}"
    _SERVERS.extend([engine.dispatcher(wire, port), engine.worker(wire, worker, HERE, dispatcher)])
    end = sends({"dispatcher": dispatcher, "key": key.hex()})
    return End(end.pull, end.facts, folder.cleanup)


def receive_open(dispatcher: str, size: int) -> End:
    return read("", dispatcher, 1, 0, "uint8", size, "none")


def receive_encrypted(dispatcher: str, key: str, size: int) -> End:
    return read(key, dispatcher, 1, 0, "uint8", size, "none", encrypted=True)


def receive_shared(dispatcher: str, key: str, size: int) -> End:
    return read(key, dispatcher, 1, 0, "uint8", size, "none", host=HERE)
