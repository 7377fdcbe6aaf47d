from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tfhet.control.connection import MAX_UNSENT_BYTES, Connection, addresses_of
from tfhet.control.message import Refused

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def test_a_peer_that_does_not_read_ends_the_connection(run: Run) -> None:
    async def scenario() -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            connection = await Connection.dial("127.0.0.1", silent.getsockname()[1])
            message = Refused("x" * 60_000)
            for _ in range(4 * MAX_UNSENT_BYTES // 60_000):
                connection.write(message)
            with pytest.raises(ConnectionError):
                await connection.read()
            connection.write(message)  # of no effect, and no error
            await connection.close()

    run(scenario())


def test_a_dialler_that_reaches_itself_has_reached_nobody(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    dial = asyncio.open_connection

    async def from_the_same_port(*place: Any, **options: Any) -> Any:
        return await dial(*place, **options, local_addr=("127.0.0.1", port))

    monkeypatch.setattr(asyncio, "open_connection", from_the_same_port)

    async def scenario() -> None:
        with pytest.raises(ConnectionRefusedError, match=f"nothing listens at 127.0.0.1:{port}"):
            await Connection.dial("127.0.0.1", port)

    run(scenario())


def test_a_name_that_cannot_be_looked_up_is_a_broken_connection(run: Run) -> None:
    async def scenario() -> None:
        with pytest.raises(OSError, match="'a..b' is no name of a host"):
            await addresses_of("a..b")

    run(scenario())
