from __future__ import annotations

import asyncio
import socket

import pytest

from tfhet.cluster import free_ports
from tfhet.control.connection import MAX_UNSENT_BYTES, Connection
from tfhet.control.message import Refused


async def test_unread_connection_ends():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connection = await Connection.dial("127.0.0.1", silent.getsockname()[1])
        message = Refused("x" * 60_000)
        for _ in range(4 * MAX_UNSENT_BYTES // 60_000):
            connection.write(message)
        with pytest.raises(ConnectionError):
            await connection.read()
        connection.write(message)  # of no effect, and no error
        await connection.close()


async def test_connection_to_itself_is_refused(monkeypatch):
    (port,) = free_ports(1)
    dial = asyncio.open_connection

    async def from_the_same_port(*place, **options):
        return await dial(*place, **options, local_addr=("127.0.0.1", port))

    monkeypatch.setattr(asyncio, "open_connection", from_the_same_port)
    with pytest.raises(ConnectionRefusedError, match=f"127.0.0.1:{port}"):
        await Connection.dial("127.0.0.1", port)
