"""The process of a feed: `python -m tfhet.planes.feed.server --port ...`. It runs the user's Python on a host that
serves, and sends the batches that readers ask for.

The main thread makes batches, as user code expects it; connections are received from and sent to by threads of their
own, which leave Python's lock while data move.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import NoReturn

from tfhet.cluster import environment
from tfhet.errors import DataError, TfhetError
from tfhet.messages import inherited, server as messages
from tfhet.planes.cpus import in_batches
from tfhet.planes.feed.connection import FeedConnection
from tfhet.planes.feed.frame import MOST_HEADER, MOST_REQUEST, Header, Tree, packed
from tfhet.planes.feed.message import ALIVE_S, Batch, Failed, Over as NoBatch, Want
from tfhet.planes.feed.production import Over, Production, Wish
from tfhet.planes.feed.source import FeedSource
from tfhet.planes.feed.work import Work
from tfhet.planes.key import key_from
from tfhet.schema import encode
from tfhet.units import MIB

SERVER = "tfhet.planes.feed.server"
MOST_UNKNOWN = 64
"""Maximum number of connections at a time that have not proved the key; beyond it the oldest is dropped."""
MOST_TEXT = 20_000
"""Characters of an error that a reader gets."""
MOST_MESSAGES, MOST_TOGETHER = 16, 4 * MIB
"""Number of batches, and their bytes, above which no other one goes with them in a frame."""
MOST_KEPT = 4096
"""Characters of a batch's tree up to which it is kept, so as not to be sent again."""
_LOOK_S = 0.05


class _Client:
    """A reader's connection, with the frames that wait to be sent."""

    def __init__(self, connection: FeedConnection, wishes: queue.SimpleQueue[Wanted], work: Work):
        self.connection, self._wishes, self._work = connection, wishes, work
        self.sources: dict[str, FeedSource] = {}
        self.reads: set[tuple[str, int]] = set()
        """The ids of sources, and the rank that reads them."""
        self.is_gone = False
        self._tree = b""
        self._outbox: queue.SimpleQueue[_Outgoing] = queue.SimpleQueue()
        threading.Thread(target=self._send, name="feed-send", daemon=True).start()

    def put(self, header: Header, buffers: Sequence[memoryview] = ()) -> None:
        self._outbox.put((header, buffers))

    def news(self, tree: Tree) -> Tree:
        """The tree of the next batch, or None if it is, to the letter, that of the last one."""
        last, self._tree = self._tree, encode(tree, MOST_HEADER)
        if self._tree == last:
            return None
        self._tree = self._tree if len(self._tree) <= MOST_KEPT else b""
        return tree

    def receive(self) -> None:
        """Takes wishes until the connection ends."""
        try:
            while True:
                for want in self.connection.receive(Want, MOST_REQUEST):
                    if want.size:
                        return
                    if want.named is not None:
                        if want.named.id != want.source:  # whose batches other readers would get for theirs
                            return
                        self.sources[want.source] = want.named
                    for wish in want.wishes:
                        self._wishes.put((self, want.source, wish))
        except (OSError, TfhetError):
            return
        finally:
            self.is_gone = True
            self._wishes.put((self, "", None))
            self.connection.close()

    def _send(self) -> None:
        waiting: _Outgoing | None = None
        with contextlib.suppress(OSError):
            while not self.is_gone:
                try:
                    found, waiting = [waiting or self._outbox.get(timeout=ALIVE_S)], None
                except queue.Empty:
                    found = [(self._work.said(), ())]
                with contextlib.suppress(queue.Empty):  # small batches go together, so that a frame costs less
                    while waiting is None and self._goes_together(found):
                        waiting = self._outbox.get_nowait()
                        if self._goes_together([waiting]):
                            found.append(waiting)
                            waiting = None
                self.connection.send(found)
                del found
        self.is_gone = True
        self.connection.close()

    @staticmethod
    def _goes_together(found: Sequence[_Outgoing]) -> bool:
        """Whether other messages may go in a frame with these: batches without a tree, which may be long, and small."""
        size = sum(buffer.nbytes for _, buffers in found for buffer in buffers)
        small = len(found) < MOST_MESSAGES and size < MOST_TOGETHER
        return small and all(isinstance(header, Batch) and header.tree is None for header, _ in found)


_Outgoing = tuple[Header, Sequence[memoryview]]
Wanted = tuple[_Client, str, Wish | None]
"""A wish of a client for a batch of a source, by its id; None once the client is gone."""


class Server:
    """Listens, and answers wishes in the thread that calls `run`."""

    def __init__(self, listener: socket.socket, address: str, key: bytes, encrypted: bool):
        self._listener, self._given = listener, (address, key, encrypted)
        self._wishes: queue.SimpleQueue[Wanted] = queue.SimpleQueue()
        self._later: collections.deque[Wanted] = collections.deque()
        self._work = Work()
        self._productions: dict[str, Production] = {}
        self._clients: set[_Client] = set()
        threading.Thread(target=self._listen, name="feed-listen", daemon=True).start()

    def run(self, stop: threading.Event) -> None:
        """Makes what is wished until `stop` is set."""
        while not stop.is_set():
            for _ in range(len(self._later)):  # those for which an iterable had no room
                self._answer(*self._later.popleft())
            with contextlib.suppress(queue.Empty):
                self._answer(*self._wishes.get(timeout=_LOOK_S))
        for production in self._productions.values():
            production.close()

    def close(self) -> None:
        """Ends the listener and all connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # else the thread that accepts would wait on
        self._listener.close()
        for client in list(self._clients):
            client.connection.close()

    def _answer(self, client: _Client, source: str, wish: Wish | None) -> None:
        if client.is_gone or wish is None:
            for read, rank in client.reads:
                self._productions[read].gone(rank)
            return
        try:
            production = self._production(client, source, wish.shard.seed)
            if not wish.is_rest:
                client.reads.add((source, wish.rank))
            with self._work.on(str(production.source)):
                found = production.batch(wish)
            if found is None:
                self._later.append((client, source, wish))
                return
            if isinstance(found, Over):
                client.put(NoBatch(source=source, wish=wish, batches=found.batches))
                return
            tree, buffers = packed({"batch": found.value, "ids": found.ids})
            tree = client.news(tree)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  the user's code may raise anything; the reader raises it, too
            client.put(Failed(source=source, wish=wish, text=_text_of(error)[-MOST_TEXT:]))
            return
        answer = Batch(source=source, wish=wish, tree=tree, examples=found.examples, again=found.again)
        client.put(answer, buffers)

    def _production(self, client: _Client, source: str, seed: int) -> Production:
        if source not in self._productions:
            if source not in client.sources:
                raise DataError("a wish for a source that was not named")
            self._productions[source] = Production(client.sources[source], seed)
        return self._productions[source]

    def _listen(self) -> None:
        unknown: collections.deque[socket.socket] = collections.deque()
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:
                return
            unknown.append(end)
            if len(unknown) > MOST_UNKNOWN:
                with contextlib.suppress(OSError, IndexError):
                    unknown.popleft().shutdown(socket.SHUT_RDWR)  # its own thread closes it
            threading.Thread(target=self._admit, args=(end, unknown), name="feed-admit", daemon=True).start()

    def _admit(self, end: socket.socket, unknown: collections.deque[socket.socket]) -> None:
        client = None
        try:
            client = _Client(FeedConnection.admit(end, *self._given), self._wishes, self._work)
        except (OSError, TfhetError):
            end.close()
        finally:
            with contextlib.suppress(ValueError):  # it was dropped
                unknown.remove(end)
        if client is not None:
            self._clients.add(client)
            client.receive()
            self._clients.discard(client)


def _text_of(error: BaseException) -> str:
    """The traceback of the user's code, without the server's own frames; for wrong use and data, what is wrong."""
    if isinstance(error, TfhetError):
        return str(error)
    trace = error.__traceback__
    while trace is not None and "/tfhet/planes/feed/" in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


def _report(stop: threading.Event) -> None:
    channel = inherited(environment())
    while not stop.wait(1.0):
        channel.send(messages.Alive())


def main(argv: Sequence[str] | None = None) -> NoReturn:
    parser = argparse.ArgumentParser(prog=SERVER, description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--address", required=True, help="HOST:PORT by which readers dial it")
    parser.add_argument("--listen", required=True, help="the IP address at which it listens")
    parser.add_argument("--encrypted", action="store_true")
    parser.add_argument("--gives_way", action="store_true", help="runs when no other process wants the CPU")
    args = parser.parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    in_batches()
    channel = inherited(environment())
    key = key_from(environment())
    family = socket.AF_INET6 if ":" in args.listen else socket.AF_INET
    listener = socket.create_server((args.listen, args.port), family=family, backlog=256)
    server = Server(listener, args.address, key, args.encrypted)
    threading.Thread(target=_report, args=(stop,), name="feed-report", daemon=True).start()
    if args.gives_way:
        os.nice(19)
    channel.send(messages.Ready(args.port), limit_s=5.0)
    server.run(stop)
    sys.stdout.flush()
    os._exit(0)  # threads of the user's code, and of its libraries, may never end


if __name__ == "__main__":
    main()
