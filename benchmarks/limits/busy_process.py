"""A process that uses all it can get: `python -m benchmarks.limits.busy_process cpu THREADS`, or `receive PORT`, or
`send ADDRESS PORT SECONDS`. It says `there` when it has started, and begins when it is given a line."""

from __future__ import annotations

import hashlib
import json
import socket
import sys
import threading
from collections.abc import Sequence

from tfhet.clock import SYSTEM, Clock

PIECE_BYTES = 1 << 20
WAIT_S = 60.0
"""For a connection, or for what comes by it."""
SETTLED_S = 0.5
"""From the first byte on; so long a queue may still be filling."""


def spin(threads: int) -> None:
    """Keeps so many threads busy, and does not return."""
    content = bytes(PIECE_BYTES)

    def turn() -> None:
        while True:
            hashlib.sha256(content).digest()  # without the interpreter's lock

    for _ in range(threads - 1):
        threading.Thread(target=turn, daemon=True).start()
    turn()


def receive(port: int, clock: Clock = SYSTEM) -> dict[str, float]:
    """Takes all that one connection brings: `bytes` in `seconds`, without the beginning."""
    with socket.create_server(("", port)) as server:
        server.settimeout(WAIT_S)
        print("listens", flush=True)
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
    """Sends as much as goes for so long."""
    content = bytes(PIECE_BYTES)
    with socket.create_connection((address, port), timeout=WAIT_S) as connection:
        until_s = clock.monotonic() + seconds
        while clock.monotonic() < until_s:
            connection.sendall(content[:65536])


def main(words: Sequence[str]) -> None:
    """The command line above."""
    print("there", flush=True)
    sys.stdin.readline()
    if words[0] == "cpu":
        spin(int(words[1]))
    elif words[0] == "receive":
        print(json.dumps(receive(int(words[1]))), flush=True)
    else:
        send(words[1], int(words[2]), float(words[3]))


if __name__ == "__main__":
    main(sys.argv[1:])
