"""A process that uses all that it can get, or sends and receives all that it can.

{"spin": threads}                          -> {}: these threads are busy until the process ends
{"listen": port}                           -> {}: it listens
{"receive": 0}                             -> {"bytes": n, "seconds": s} of one connection, without its beginning
{"send": port, "to": address, "seconds": s} -> {}: it has sent as much as goes for so long
"""

from __future__ import annotations

import hashlib
import socket
import threading
from typing import Any

from tfhet.bench.child_process import answer_requests
from tfhet.clock import SYSTEM, Clock

PIECE_BYTES = 1 << 20
WAIT_S = 60.0
"""Maximum wait for a connection, and for the next bytes of it."""
SETTLED_S = 0.5
"""Time from the first byte on in which a queue may still be filling."""


def spin(threads: int) -> None:
    """Starts threads that are busy until the process ends."""
    content = bytes(PIECE_BYTES)

    def turn() -> None:
        while True:
            hashlib.sha256(content).digest()  # without the interpreter's lock

    for _ in range(threads):
        threading.Thread(target=turn, daemon=True).start()


def receive(server: socket.socket, clock: Clock = SYSTEM) -> dict[str, float]:
    """Takes all that one connection brings: `bytes` in `seconds`, without the beginning."""
    server.settimeout(WAIT_S)
    connection, _ = server.accept()
    room = bytearray(PIECE_BYTES)
    with connection:
        connection.settimeout(WAIT_S)
        connection.recv_into(room, 1)
        settled_s = clock.monotonic() + SETTLED_S
        begun_s = ended_s = 0.0
        count = 0
        while got := connection.recv_into(room):
            now_s = clock.monotonic()
            if begun_s:
                count, ended_s = count + got, now_s
            elif now_s >= settled_s:
                begun_s = ended_s = now_s
    return {"bytes": count, "seconds": ended_s - begun_s}


def send(address: str, port: int, seconds: float, clock: Clock = SYSTEM) -> None:
    """Sends as much as goes for `seconds`."""
    content = bytes(PIECE_BYTES)
    with socket.create_connection((address, port), timeout=WAIT_S) as connection:
        until_s = clock.monotonic() + seconds
        while clock.monotonic() < until_s:
            connection.sendall(content[:65536])


def main() -> None:
    """Answers until its input ends."""
    servers: list[socket.socket] = []

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if "spin" in request:
            spin(request["spin"])
        elif "listen" in request:
            servers.append(socket.create_server(("", request["listen"])))
        elif "receive" in request:
            with servers.pop() as server:
                return receive(server)
        else:
            send(request["to"], request["send"], request["seconds"])
        return {}

    answer_requests(handle)


if __name__ == "__main__":
    main()
