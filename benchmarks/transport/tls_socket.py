"""A TCP connection with TLS 1.3 of Python's own `ssl`, and nothing else: what encryption costs over a plain one."""

from __future__ import annotations

import functools
import socket

from benchmarks.transport import raw_socket
from tfhet.bench.wire.end import End
from tfhet.planes.feed.connection import tls_context

KEY = bytes(range(32))


def send(size: int) -> End:
    return raw_socket.send(size, functools.partial(_wrapped, server=True))


def receive(port: int, size: int) -> End:
    return raw_socket.receive(port, size, functools.partial(_wrapped, server=False))


def _wrapped(connection: socket.socket, server: bool) -> socket.socket:
    return tls_context(KEY, server).wrap_socket(connection, server_side=server)
