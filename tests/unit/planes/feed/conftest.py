"""Servers of a feed in threads of this process, which end with the test."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from own_key import KEY

from tfhet.planes.feed.code import CodeFolders
from tfhet.planes.feed.reader import FeedReader
from tfhet.planes.feed.server import Server
from tfhet.planes.feed.source import FeedSource


@pytest.fixture(autouse=True)
def unseeded() -> Iterator[None]:
    """Takes back what a server does to its process, which is this one here: it sets the arguments of the script and
    TensorFlow's global seed."""
    argv = sys.argv
    yield
    sys.argv = argv
    if (tensorflow := sys.modules.get("tensorflow")) is not None:
        tensorflow.random.set_seed(None)


@dataclass(eq=False)
class Served:
    """One server, which can be lost."""

    address: str
    server: Server
    listener: socket.socket
    stop: threading.Event
    thread: threading.Thread

    def lose(self) -> None:
        """Ends it as the death of its process would: the port is closed, and so is every connection."""
        self.stop.set()
        self.server.close()
        self.thread.join(10)


@pytest.fixture
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[Served]]]:
    """`serve(3)`: so many servers."""
    made: list[Served] = []
    code = CodeFolders(str(tmp_path_factory.getbasetemp() / "train.py"))

    def run(count: int, encrypted: bool = False) -> list[Served]:
        for _ in range(count):
            listener = socket.create_server(("127.0.0.1", 0))
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            server, stop = Server(listener, address, KEY, encrypted, code), threading.Event()
            thread = threading.Thread(target=server.run, args=(stop,))
            thread.start()
            made.append(Served(address, server, listener, stop, thread))
        return made[-count:]

    yield run
    for one in made:
        one.lose()


@pytest.fixture
def read() -> Iterator[Callable[..., FeedReader]]:
    """`read(servers, source)`: a reader of servers or addresses, closed after the test."""
    made: list[FeedReader] = []

    def run(servers: list[Served | str], source: FeedSource, key: bytes = KEY, **options) -> FeedReader:
        where = [one if isinstance(one, str) else one.address for one in servers]
        made.append(FeedReader(where, key, source, **{"say": lambda line: None, **options}))
        return made[-1]

    yield run
    for one in made:
        one.close()
