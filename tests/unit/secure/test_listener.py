"""The listener in a thread: it serves blocking sockets, and strangers keep no client out."""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
from collections.abc import Iterator

import pytest

from tfhet.secure import (
    ListenerThread,
    Purpose,
    Records,
    Unauthenticated,
    as_client,
    as_server,
    listener as listener_module,
    perform_handshake,
)

KEY = bytes(range(32))


@pytest.fixture
def listening() -> Iterator[tuple[str, int]]:
    """The address of a listener that sends each client one record."""

    def serve(end: socket.socket, records: Records, peer: str) -> None:
        with end:
            assert end.gettimeout() is None and peer.endswith(f":{end.getpeername()[1]}")
            end.sendall(records.sealed(b"welcome"))

    sock = socket.create_server(("127.0.0.1", 0))
    listener = ListenerThread(sock, functools.partial(as_server, KEY, {Purpose.FEED}), serve)
    yield sock.getsockname()
    before = threading.active_count()
    listener.close()
    listener.close()
    assert threading.active_count() < before and sock.fileno() == -1


def welcomed(address: tuple[str, int], key: bytes = KEY) -> bool:
    with socket.create_connection(address, timeout=20) as end:
        records = perform_handshake(end, as_client(key, Purpose.FEED), 20)
        return records.lengths(end.recv(Records.HEAD, socket.MSG_WAITALL), 100) == (7, 0)


def test_client_with_the_key_is_served_others_not(listening):
    assert welcomed(listening)
    with pytest.raises(Unauthenticated):
        welcomed(listening, bytes(32))
    assert welcomed(listening)


def test_silent_connections_keep_no_client_out(listening, monkeypatch):
    monkeypatch.setattr(listener_module, "MAX_UNAUTHENTICATED", 4)
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(listening, timeout=20)) for _ in range(12)]
        assert welcomed(listening)
        assert silent[0].recv(1) == b""


def test_failed_accept_does_not_end_the_listener(listening, monkeypatch):
    accept, failures = socket.socket.accept, [OSError(24, "Too many open files")] * 3

    def sometimes(sock: socket.socket):
        if failures:
            raise failures.pop()
        return accept(sock)

    monkeypatch.setattr(socket.socket, "accept", sometimes)
    assert welcomed(listening) and not failures
