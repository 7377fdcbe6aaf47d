"""A machine between two hosts: passes a handshake on, and then interferes with the records of one direction."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

from tfhet.secure import TAG_BYTES, Records
from tfhet.secure.handshake import MAGIC, NONCE_BYTES, PROOF_BYTES

OPENING, ANSWER = len(MAGIC) + 2 + NONCE_BYTES, len(MAGIC) + NONCE_BYTES
FORGED = struct.pack("!QQ", 9, 0) + bytes(TAG_BYTES) + b"[{}, {}, " + bytes(TAG_BYTES)
TRICKS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "changes a message": lambda seen: [_flipped(seen[0], Records.HEAD)],
    "changes a length": lambda seen: [_flipped(seen[0], 7)],
    "makes it endless": lambda seen: [_flipped(seen[0], 1)],
    "adds": lambda seen: [FORGED, *seen],
    "repeats": lambda seen: [seen[0], seen[0]],
    "reorders": lambda seen: [seen[1], seen[0]],
    "drops": lambda seen: [seen[1]],
    "cuts": lambda seen: [seen[0][:-5], b""],
}
"""What it makes of the first two records; b"" ends the connection."""


def _flipped(record: bytes, at: int) -> bytes:
    return record[:at] + bytes([record[at] ^ 1]) + record[at + 1 :]


def exactly(end: socket.socket, size: int) -> bytes:
    """Returns the next bytes, or raises ConnectionError."""
    found = b""
    while len(found) < size:
        if not (more := end.recv(size - len(found))):
            raise ConnectionError
        found += more
    return found


def record(end: socket.socket) -> bytes:
    """Returns the next record without its data."""
    head = exactly(end, Records.HEAD)
    return head + exactly(end, struct.unpack_from("!Q", head)[0] + TAG_BYTES)


class Relay:
    """Listens at `address`; `serve(port)` connects it to a server. direction: "up" to the server, or "down"."""

    def __init__(self, trick: str, direction: str):
        self._trick, self._direction = TRICKS[trick], direction
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.connections = 0

    def serve(self, to_port: int) -> None:
        threading.Thread(target=self._accept, args=(to_port,), daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self, to_port: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                server = socket.create_connection(("127.0.0.1", to_port))
                threading.Thread(target=self._pass, args=(client, server), daemon=True).start()

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, contextlib.suppress(OSError):
            opening = exactly(client, OPENING)
            server.sendall(opening + exactly(client, opening[len(MAGIC) + 1]))
            client.sendall(exactly(server, ANSWER))
            server.sendall(exactly(client, PROOF_BYTES))
            client.sendall(exactly(server, PROOF_BYTES))
            ways = [(client, server), (server, client)]
            source, target = ways if self._direction == "up" else ways[::-1]
            threading.Thread(target=_copy, args=target, daemon=True).start()
            for piece in self._trick([record(source[0]), record(source[0])]):
                if not piece:
                    client.shutdown(socket.SHUT_RDWR)
                    server.shutdown(socket.SHUT_RDWR)
                    return
                source[1].sendall(piece)
            _copy(*source)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def between(port: int, trick: str, direction: str) -> Iterator[Relay]:
    """A relay to a server."""
    relay = Relay(trick, direction)
    relay.serve(port)
    try:
        yield relay
    finally:
        relay.close()
