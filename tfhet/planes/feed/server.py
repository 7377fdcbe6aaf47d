"""The process of a feed: `python -m tfhet.planes.feed.server --port ...`. It runs the user's Python on a serving host
and sends the batches that readers request.

The main thread makes batches, as user code expects. Other threads receive and send; they release Python's lock.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

from tfhet.cluster import environment
from tfhet.errors import DataError, TfhetError
from tfhet.messages import inherited, server as messages
from tfhet.planes.cpus import in_batches
from tfhet.planes.feed.code import CodeFolders
from tfhet.planes.feed.connection import FeedConnection, purpose
from tfhet.planes.feed.delivered import NO_BATCH, BatchRequest
from tfhet.planes.feed.frame import MOST_HEADER, MOST_REQUEST, Header, Tree, packed
from tfhet.planes.feed.message import ALIVE_S, Batch, BatchRequests, Described, Failed, NoBatch, WorkMonitor, text_of
from tfhet.planes.feed.production import EndOfShard, Production
from tfhet.planes.feed.shared_memory import LocalConnection, local_listener
from tfhet.planes.feed.source import FeedSource
from tfhet.planes.process import key_from
from tfhet.schema import encode
from tfhet.secure import ListenerThread, Purpose, Records, as_server, listening
from tfhet.units import MIB

SERVER = "tfhet.planes.feed.server"
MOST_MESSAGES, MOST_TOGETHER = 16, 4 * MIB
"""Limits for the batches of a frame: their number and bytes."""
MOST_KEPT = 4096
"""Maximum length of a tree that is not sent again with the next batch, in bytes."""
MOST_UNUSED = 2
"""Maximum number of sources that are kept without a reader."""
_CHECK_S = 0.05


class _Client:
    """A reader's connection and the messages to send."""

    def __init__(
        self, connection: FeedConnection, peer: str, requests: queue.SimpleQueue[Requested], monitor: WorkMonitor
    ):
        self.connection, self._peer, self._requests, self._monitor = connection, peer, requests, monitor
        self.sources: dict[str, FeedSource] = {}
        self.reads: set[tuple[str, int]] = set()
        """Ids of sources, each with the rank that reads it."""
        self.described: set[str] = set()
        """Sources whose facts were sent."""
        self.is_gone = False
        self._tree = b""
        self._outbox: queue.SimpleQueue[_Outgoing] = queue.SimpleQueue()
        threading.Thread(target=self._send, name="feed-send", daemon=True).start()

    def put(self, header: Header, buffers: Sequence[memoryview] = ()) -> None:
        self._outbox.put((header, buffers))

    def changed(self, tree: Tree) -> Tree:
        """Returns the tree of the next batch; None if its JSON is the same as for the last batch."""
        last, self._tree = self._tree, encode(tree, MOST_HEADER)
        if self._tree == last:
            return None
        self._tree = self._tree if len(self._tree) <= MOST_KEPT else b""
        return tree

    def receive(self) -> None:
        """Receives requests until the connection ends."""
        try:
            while True:
                for message in self.connection.receive(BatchRequests, MOST_REQUEST):
                    if message.size or message.segment:
                        return
                    if message.named is not None:
                        if message.named.id != message.source:  # other readers would get its batches
                            return
                        self.sources[message.source] = message.named
                        if not message.requests:
                            self._requests.put((self, message.source, None))
                    for request in message.requests:
                        self._requests.put((self, message.source, request))
        except TfhetError as error:
            print(f"the feed ends the connection from {self._peer}: {error}", flush=True)
        except OSError:  # the reader has ended, or its host is lost
            return
        finally:
            self.is_gone = True
            self._requests.put((self, "", None))
            self.connection.close()

    def _send(self) -> None:
        waiting: _Outgoing | None = None
        with contextlib.suppress(OSError):
            while not self.is_gone:
                try:
                    found, waiting = [waiting or self._outbox.get(timeout=ALIVE_S)], None
                except queue.Empty:
                    found = [(self._monitor.report(), ())]
                size = _size_of(found[0])
                with contextlib.suppress(queue.Empty):  # small batches share a frame
                    while size < MOST_TOGETHER and len(found) < MOST_MESSAGES:
                        waiting = self._outbox.get_nowait()
                        if (more := _size_of(waiting)) >= MOST_TOGETHER:
                            break
                        found.append(waiting)
                        waiting, size = None, size + more
                self.connection.send(found)
                del found
        self.is_gone = True
        self.connection.close()


def _size_of(message: _Outgoing) -> int:
    """Returns the bytes of a message; MOST_TOGETHER if it needs a frame of its own: all but batches without trees."""
    header, buffers = message
    shares = isinstance(header, Batch) and header.tree is None
    return sum(buffer.nbytes for buffer in buffers) if shares else MOST_TOGETHER


_Outgoing = tuple[Header, Sequence[memoryview]]
Requested = tuple[_Client, str, BatchRequest | None]
"""A client's request for a batch of a source, by its id; None to import its module, or if the client is gone."""


class Server:
    """Listens, and answers requests in the thread that calls `run`."""

    def __init__(
        self, listener: socket.socket, address: str, key: bytes, encrypted: bool, code: CodeFolders | None = None
    ):
        """listener: socket that listens; the server closes it. address: HOST:PORT by which readers dial it."""
        self._code = code or CodeFolders()
        self._requests: queue.SimpleQueue[Requested] = queue.SimpleQueue()
        self._waiting, self._later = collections.deque[Requested](), collections.deque[Requested]()
        self._monitor = WorkMonitor()
        self._productions: dict[str, Production] = {}
        self._clients: set[_Client] = set()
        self._listening = [self._listen(listener, FeedConnection, purpose(encrypted), key, address)]
        if (local := local_listener(key, address)) is not None:
            self._listening.append(self._listen(local, LocalConnection, Purpose.FEED_SHARED_MEMORY, key, address))

    def run(self, stop: threading.Event) -> None:
        """Makes the requested batches until `stop` is set."""
        while not stop.is_set():
            for _ in range(len(self._later)):  # requests that would run an iterable too far ahead
                self._answer(*self._later.popleft())
            if waiting := self._received():
                self._answer(*waiting.popleft())
        for production in self._productions.values():
            production.close()

    def _received(self) -> collections.deque[Requested]:
        """Returns the requests to answer, which productions may prepare."""
        with contextlib.suppress(queue.Empty):
            while True:
                is_idle = not self._waiting
                request = self._requests.get(block=is_idle, timeout=_CHECK_S if is_idle else None)
                self._waiting.append(request)
                if request[2] is not None and (production := self._productions.get(request[1])):
                    production.expect(request[2])
        return self._waiting

    def close(self) -> None:
        for each in self._listening:
            each.close()
        for client in list(self._clients):
            client.connection.close()

    def _answer(self, client: _Client, source: str, request: BatchRequest | None) -> None:
        if client.is_gone:
            for read, rank in client.reads:
                if read in self._productions:
                    self._productions[read].remove_reader(rank)
            self._drop_unused()
            return
        if request is None:
            with contextlib.suppress(BaseException):  # the first request for a batch raises it again
                named = self._named(client, source)
                with self._monitor.on(str(named)):
                    named.load()
            return
        try:
            production = self._production(client, source, request.shard.seed)
            with self._monitor.on(str(production.source)):
                if production.source.batch_size and source not in client.described:
                    client.put(Described(source=source, request=request, facts=production.facts))
                    client.described.add(source)
                if request.number == NO_BATCH:
                    return
                if not request.is_rest:
                    client.reads.add((source, request.rank))
                found = production.batch(request)
            if found is None:
                self._later.append((client, source, request))
                return
            if isinstance(found, EndOfShard):
                client.put(NoBatch(source=source, request=request, batches=found.batches))
                return
            tree, buffers = packed({"batch": found.value, "ids": found.ids})
            tree = client.changed(tree)
        except BaseException as error:  # noqa: BLE001  the user's code may raise anything; the reader raises it, too
            client.put(Failed(source=source, request=request, text=text_of(error)))
            return
        answer = Batch(source=source, request=request, tree=tree, examples=found.examples, again=found.again)
        client.put(answer, buffers)

    def _named(self, client: _Client, source: str) -> FeedSource:
        """Returns a source that a client has named, whose module may parse the script's arguments."""
        if source not in client.sources:
            raise DataError("a request for a source that was not named")
        named = client.sources[source]
        self._code.check(named)
        sys.argv = [named.file, *named.argv]
        return named

    def _production(self, client: _Client, source: str, seed: int) -> Production:
        if source not in self._productions:
            self._productions[source] = Production(self._named(client, source), seed)
        return self._productions[source]

    def _drop_unused(self) -> None:
        """Drops the oldest sources that no reader has any more; the latest ones serve readers that connect again."""
        used = {source for client in list(self._clients) if not client.is_gone for source in client.sources}
        for source in [source for source in self._productions if source not in used][:-MOST_UNUSED]:
            self._productions.pop(source).close()

    def _listen(
        self, listener: socket.socket, kind: type[FeedConnection], purpose: Purpose, key: bytes, address: str
    ) -> ListenerThread:
        side = functools.partial(as_server, key, {purpose}, address)
        return ListenerThread(listener, side, functools.partial(self._serve, kind))

    def _serve(self, kind: type[FeedConnection], end: socket.socket, records: Records, peer: str) -> None:
        client = _Client(kind(end, records), peer, self._requests, self._monitor)
        self._clients.add(client)
        client.receive()
        self._clients.discard(client)


def _report(stop: threading.Event) -> None:
    channel = inherited(environment())
    while not stop.wait(1.0):
        channel.send(messages.Alive())


def main(argv: Sequence[str] | None = None) -> NoReturn:
    parser = argparse.ArgumentParser(prog=SERVER, description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--address", required=True, help="HOST:PORT by which readers dial it")
    parser.add_argument("--listen", required=True, help="the IP address at which it listens")
    parser.add_argument("--script", default="", help="the training script")
    parser.add_argument("--encrypted", action="store_true")
    parser.add_argument("--gives_way", action="store_true", help="runs when no other process wants the CPU")
    args = parser.parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    in_batches()
    channel = inherited(environment())
    key = key_from(environment())
    listener = listening(args.listen, args.port)
    server = Server(listener, args.address, key, args.encrypted, CodeFolders(args.script))
    threading.Thread(target=_report, args=(stop,), name="feed-report", daemon=True).start()
    if args.gives_way:
        os.nice(19)
    channel.send(messages.Ready(args.port), limit_s=5.0)
    server.run(stop)
    sys.stdout.flush()
    os._exit(0)  # threads of the user's code, and of its libraries, may never end


if __name__ == "__main__":
    main()
