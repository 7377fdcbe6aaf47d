"""Objects over a socket, each as its length and its pickle. Both ends trust each other, as toys may."""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any


def send(connection: socket.socket, value: Any) -> None:
    """Sends one object. Raises OSError."""
    content = pickle.dumps(value)
    connection.sendall(struct.pack("!Q", len(content)) + content)


def receive(connection: socket.socket) -> Any:
    """The next object. Raises OSError where the other end is gone."""
    (length,) = struct.unpack("!Q", _exactly(connection, 8))
    return pickle.loads(_exactly(connection, length))


def _exactly(connection: socket.socket, count: int) -> bytes:
    content = bytearray()
    while len(content) < count:
        more = connection.recv(min(count - len(content), 1 << 20))
        if not more:
            raise ConnectionError("the other end has closed the connection")
        content += more
    return bytes(content)
