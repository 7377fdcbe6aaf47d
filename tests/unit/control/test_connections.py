from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys

import pytest

from tfhet.cluster import free_ports
from tfhet.control.connection import MAX_UNSENT_BYTES, Connection
from tfhet.control.message import Refused
from tfhet.secure import MAGIC, Records, listener

# In a process of its own: both ends in one would need more descriptors than a process usually has.
FLOOD = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
peers = [socket.socket() for _ in range(1000)]
for peer in peers:
    peer.setblocking(False)
    peer.connect_ex(("127.0.0.1", int(sys.argv[1])))
sys.stdin.read()
"""
HALF_AN_OPENING = MAGIC + bytes(20)


def _peer(port: int) -> socket.socket:
    peer = socket.socket()
    peer.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        peer.connect(("127.0.0.1", port))
    return peer


async def _hung_up_on(peer: socket.socket) -> bytes:
    """The bytes that the peer is sent until the other side closes."""
    loop, got = asyncio.get_running_loop(), b""
    with contextlib.suppress(ConnectionError):
        while data := await loop.sock_recv(peer, 65536):
            got += data
    return got


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: algo-1\r\n\r\n" + bytes(20), "not a connection"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40), "not a connection"),
        (b"x" * 200_000, "not a connection"),
        (MAGIC[:-1] + b"0" + bytes(100), "tfhet-c0"),
        (MAGIC + bytes((0, 0)) + bytes(64), "wrong secret"),
        (HALF_AN_OPENING, "0.2 s"),
        (b"", "0.2 s"),
    ],
    ids=["http", "tls", "too much", "old version", "no proof", "half an opening", "nothing"],
)
async def test_bad_peer_is_dropped_with_the_reason(link_of, caplog, sent, reason):
    events = []
    link = await link_of("a", handshake_s=0.2, observer=events.append)
    peer = _peer(link.port)
    with contextlib.suppress(ConnectionError):
        await asyncio.get_running_loop().sock_sendall(peer, sent)
    await link.join("a")
    assert len(await _hung_up_on(peer)) in (0, 40)  # a nonce at most
    peer.close()
    while link.coordinator._listener.drops == 0:
        await asyncio.sleep(0.01)
    await link.coordinator.wait_joined(10)
    await link.coordinator.end(0, "done")
    assert await link.until("end") == [("end", "a", 0, "done")]
    dropped = [event.fields["reason"] for event in events if event.name == "link.peer_dropped"]
    assert len(dropped) == 1
    assert reason in dropped[0]
    assert reason in caplog.text


async def test_peer_that_hangs_up_is_dropped(link_of):
    link = await link_of("a")
    for sent in (b"", HALF_AN_OPENING):
        peer = _peer(link.port)
        await asyncio.get_running_loop().sock_sendall(peer, sent)
        peer.close()
    while link.coordinator._listener.drops < 2:
        await asyncio.sleep(0.01)
    await link.join("a")


async def test_thousand_connections_at_once_change_nothing(link_of, caplog):
    link = await link_of("a", "b", lease_s=5.0)
    await link.join("a")
    with subprocess.Popen([sys.executable, "-c", FLOOD, str(link.port)], stdin=subprocess.PIPE) as flood:
        while link.coordinator._listener.drops == 0:
            await asyncio.sleep(0.001)
        await link.join("b")
        link.members["b"].send({"type": "through"})
        await link.until("message")
        while link.coordinator._listener.drops < 1000 - listener.MAX_UNAUTHENTICATED:
            await asyncio.sleep(0.001)
        await link.coordinator.wait_joined(10)
        assert len(link.coordinator._listener._unproved) <= listener.MAX_UNAUTHENTICATED
        assert await link.coordinator.end(0, "done") == frozenset()
        flood.stdin.close()
    assert not {"lost", "lease lost"} & set(link.kinds())
    assert "too many connections" in caplog.text
    assert len([record for record in caplog.records if "dropped" in record.message]) < 25


async def test_half_open_connections_do_not_keep_a_member_out(link_of, monkeypatch):
    monkeypatch.setattr(listener, "MAX_UNAUTHENTICATED", 4)
    link = await link_of("a")
    peers = [_peer(link.port) for _ in range(50)]
    await link.join("a")
    await link.coordinator.wait_joined(10)
    for peer in peers:
        peer.close()


async def test_closing_hangs_up_on_strangers(link_of):
    link = await link_of("a")
    peers = [_peer(link.port) for _ in range(20)]
    await asyncio.sleep(0)
    await link.coordinator.close()
    for peer in peers:
        await _hung_up_on(peer)
        peer.close()


async def test_exhausted_descriptors_are_survived(link_of, monkeypatch):
    link = await link_of("a", handshake_s=0.5)
    loop = asyncio.get_running_loop()
    accept, fails = loop.sock_accept, iter([True, True, False])

    async def sometimes(sock):
        accepted = await accept(sock)
        if next(fails, False):
            accepted[0].close()
            raise OSError(24, "Too many open files")
        return accepted

    monkeypatch.setattr(loop, "sock_accept", sometimes)
    first = _peer(link.port)
    await link.join("a")
    first.close()


async def test_unread_connection_ends():
    here, there = socket.socketpair()
    here.setblocking(False)
    with there:
        connection = await Connection.take(here, Records(b"", b""))
        message = Refused("x" * 60_000)
        for _ in range(4 * MAX_UNSENT_BYTES // 60_000):
            connection.write(message)
        with pytest.raises(ConnectionError):
            await connection.read()
        connection.write(message)  # of no effect, and no error
        await connection.close()


async def test_connection_to_itself_is_refused(monkeypatch):
    (port,) = free_ports(1)
    loop = asyncio.get_running_loop()
    connect = loop.sock_connect

    async def from_the_same_port(end, address):
        end.bind(("127.0.0.1", port))
        await connect(end, address)

    monkeypatch.setattr(loop, "sock_connect", from_the_same_port)
    with pytest.raises(ConnectionRefusedError, match=f"127.0.0.1:{port}"):
        await Connection.dial("127.0.0.1", port, bytes(32))
