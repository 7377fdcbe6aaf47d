"""Plain TensorFlow that does what tf.data service lets anyone do who reaches its ports."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

ASKS = "ASKS\n"
"""All that one says who reached the port and could do nothing there."""
ASKS_S = 6.0
"""Seconds that it may try. TensorFlow itself tries for an hour."""


def visit(target: str, *before: str) -> str:
    """Registers a worker and a data set at `target`, HOST:PORT, and reads from it; returns what could be done.
    before: the words before its command."""
    command = [*before, sys.executable, str(Path(__file__).resolve()), target]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()  # importing TensorFlow takes its time
        try:
            process.wait(ASKS_S)
        except subprocess.TimeoutExpired:
            process.kill()
        return first + process.stdout.read()


def _try(target: str) -> None:
    import tensorflow as tf

    service = tf.data.experimental.service
    host, _, port = target.rpartition(":")
    socket.create_connection((host, int(port)), ASKS_S).close()
    print(ASKS, end="", flush=True)
    try:
        worker = service.WorkerServer(service.WorkerConfig(target, dispatcher_timeout_ms=2_000))
        print(f"REGISTERED {worker}", flush=True)
    except (RuntimeError, tf.errors.OpError):
        pass
    data = tf.data.Dataset.range(3)
    service.register_dataset(f"grpc://{target}", data)
    print("REGISTERED data", flush=True)
    print("READ", list(data.apply(service.distribute("parallel_epochs", f"grpc://{target}"))), flush=True)


if __name__ == "__main__":
    _try(sys.argv[1])
