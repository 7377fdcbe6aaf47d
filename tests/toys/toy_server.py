"""The process of the toy plane on a data host: `python -m toy_server ADDRESS PORT` deals batches to ranks."""

from __future__ import annotations

import socketserver
import sys
import threading
from collections.abc import Iterator
from typing import Any

import toy_plane
import toy_wire


class Deal(socketserver.BaseRequestHandler):
    """One rank that offers an epoch, asks whether one is offered, or reads one that was."""

    streams: dict[str, tuple[threading.Lock, Iterator[Any]]] = {}
    """By the name of an epoch, what is left of it; the ranks share it, first come, first served."""

    def handle(self) -> None:
        name, *offered = toy_wire.receive(self.request)
        if offered == ["?"]:
            toy_wire.send(self.request, name in self.streams)
            return
        if offered:
            from tfhet.pipeline import one_epoch  # it listens at once, and loads TensorFlow when there is an epoch

            pipeline, epoch, share, rest = offered
            self.streams[name] = threading.Lock(), iter(one_epoch(pipeline, epoch, share, 1, rest))
            toy_wire.send(self.request, "offered")
            return
        lock, stream = self.streams[name]
        while True:
            with lock:
                batch = next(stream, None)
            parts = None if batch is None else {part: batch[part].numpy() for part in ("image", "label", "id")}
            toy_wire.send(self.request, parts)
            if parts is None:
                return


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True


if __name__ == "__main__":
    with Server((sys.argv[1], int(sys.argv[2])), Deal) as server:
        print(toy_plane.READY, flush=True)
        server.serve_forever()
