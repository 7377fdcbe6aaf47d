"""A machine between a reader and a server of a feed, without the key: it gets nothing, and runs nothing."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from own_key import KEY
from relay import TRICKS, Relay, exactly

from tfhet.errors import TfhetError
from tfhet.planes.feed.connection import FeedConnection
from tfhet.planes.feed.message import Alive, Batch, BatchRequests, FromServer
from tfhet.planes.feed.production import BatchRequest
from tfhet.planes.feed.server import Server
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.schema import MessageError
from tfhet.secure import MAGIC, Forged, Purpose, Unauthenticated, as_client, as_server, perform_handshake

made: list[int] = []


def numbers(shard):
    for number in range(10):
        made.append(number)
        yield np.full(4, number)


SOURCE = FeedSource.of(numbers, {})


def request(number: int, source: FeedSource | None = None) -> BatchRequests:
    return BatchRequests(SOURCE.id, (BatchRequest(Shard(0, 1), number, 0, ahead=1),), source)


@pytest.fixture
def behind() -> Iterator:
    """`behind(relay)`: a server that readers reach through the relay."""
    servers = []

    def start(relay: Relay, encrypted: bool = False) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        relay.serve(listener.getsockname()[1])
        server, stop = Server(listener, relay.address, KEY, encrypted), threading.Event()
        thread = threading.Thread(target=server.run, args=(stop,))
        thread.start()
        servers.append((server, stop, thread, relay))

    yield start
    for server, stop, thread, relay in servers:
        stop.set()
        server.close()
        relay.close()
        thread.join(10)


def received(connection: FeedConnection) -> list[int]:
    """The batches until the connection ends, and the error of its end."""
    found: list = []
    connection.silent_after(20)
    try:
        while True:
            for message in connection.receive(FromServer):
                connection.receive_data([message], lambda size: np.empty(size, np.uint8))
                if isinstance(message, Batch):
                    found.append(message.request.number)
    except (OSError, MessageError) as error:
        return [*found, type(error)]


@pytest.mark.parametrize("trick", TRICKS)
def test_requests_that_a_relay_forges_are_not_run(behind, capfd, trick):
    made.clear()
    behind(relay := Relay(trick, "up"))
    connection = FeedConnection.dial(relay.address, KEY, False)
    connection.send([(request(0, SOURCE), ())])
    connection.send([(request(1), ())])
    found = received(connection)
    connection.close()
    assert found in ([ConnectionError], [ConnectionResetError], [0, ConnectionError], [0, ConnectionResetError])
    assert trick in ("repeats", "cuts") or (found[0] != 0 and not made)
    if trick != "cuts":
        assert "interferes" in capfd.readouterr().out


@pytest.mark.parametrize("trick", TRICKS)
def test_answers_that_a_relay_forges_end_the_connection(behind, monkeypatch, trick):
    monkeypatch.setattr("tfhet.planes.feed.server.ALIVE_S", 0.05)
    behind(relay := Relay(trick, "down"))
    connection = FeedConnection.dial(relay.address, KEY, False)
    (*found, error) = received(connection)
    connection.close()
    assert not found and error in ((ConnectionError, ConnectionResetError) if trick == "cuts" else (Forged,))


def test_overheard_connection_cannot_be_replayed(serve, monkeypatch):
    """Everything that a reader sent once, sent again to the same server."""
    (one,) = serve(1)
    sent: list[bytes] = []
    sendall, sendmsg = socket.socket.sendall, socket.socket.sendmsg

    class Overheard(socket.socket):
        def sendall(self, data, *rest):
            sent.append(bytes(data))
            return sendall(self, data, *rest)

        def sendmsg(self, pieces, *rest):
            sent.append(b"".join(pieces))
            return sendmsg(self, pieces, *rest)

    with socket.create_connection(one.address.split(":")) as plain:
        end = Overheard(fileno=plain.detach())
    records = perform_handshake(end, as_client(KEY, Purpose.FEED, one.address))
    connection = FeedConnection(end, records)
    connection.send([(request(0, SOURCE), ())])
    assert isinstance(connection.receive(FromServer)[0], (Alive, Batch))
    connection.close()
    made.clear()
    with socket.create_connection(one.address.split(":"), timeout=20) as again:
        for piece in sent:
            again.sendall(piece)
        assert exactly(again, 40).startswith(MAGIC)
        with contextlib.suppress(ConnectionResetError):
            assert again.recv(1) == b""
    assert not made


def test_downgrade_is_refused_by_both_sides(behind):
    """The relay makes a reader that wants TLS a reader without, and talks to both in clear."""
    behind(relay := Relay("adds", "up"), encrypted=True)
    with pytest.raises(Unauthenticated):
        FeedConnection.dial(relay.address, KEY, encrypted=False)
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"

    def serve_in_clear() -> None:
        with listener.accept()[0] as end, pytest.raises(TfhetError):
            perform_handshake(end, as_server(KEY, {Purpose.FEED}, address))

    thread = threading.Thread(target=serve_in_clear)
    thread.start()
    with pytest.raises(Unauthenticated):
        FeedConnection.dial(address, KEY, encrypted=True)
    thread.join(10)
    listener.close()


class Flip:
    """Passes on what a server sends to a reader, with one bit of the first connection changed."""

    def __init__(self, port: int, at: int):
        self.seen, self._at, self._port = bytearray(), at, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                reader, server = self._listener.accept()[0], socket.create_connection(("127.0.0.1", self._port))
                for ends in ((reader, server, False), (server, reader, True)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := bytearray(source.recv(1 << 16)):
                begin = len(self.seen)
                if counts and begin <= self._at < begin + len(piece):
                    piece[self._at - begin] ^= 1
                self.seen += piece if counts else b""
                target.sendall(piece)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def patterned(shard):
    for number in range(6):
        yield {"image": np.full((300, 1000), 65 + number, np.uint8), "label": np.arange(5) + number}


@pytest.mark.parametrize("at", [40, 72, 160, 200, 500, 100_000, 300_900, 1_000_000])
def test_encrypted_batches_are_whole_and_secret(read, at):
    """A bit of the handshake, of the public key, of lengths, of messages or of batches is changed."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    relay = Flip(port, at)
    server, stop = Server(listener, relay.address, KEY, True), threading.Event()
    thread = threading.Thread(target=server.run, args=(stop,))
    thread.start()
    try:
        found = list(read([relay.address], FeedSource.of(patterned, {}), encrypted=True).epoch(0))
    finally:
        stop.set()
        server.close()
        relay.close()
        thread.join(10)
    assert len(relay.seen) > at
    assert [(one.batch["image"].min(), one.batch["image"].max()) for one in found] == [(65 + n,) * 2 for n in range(6)]
    assert [list(one.batch["label"]) for one in found] == [[*range(n, n + 5)] for n in range(6)]
    assert not any(bytes([65 + number]) * 16 in relay.seen for number in range(6)) and b"image" not in relay.seen
