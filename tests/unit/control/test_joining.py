"""A member joins over an authenticated connection, and a relay between it and the server cannot interfere."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from relay import TRICKS, between

from tfhet.control import Secret
from tfhet.control.connection import Connection, Refused
from tfhet.control.message import Alive, Join, Joined, Left, Numbered
from tfhet.errors import NotReady
from tfhet.schema import MessageError
from tfhet.secure import Forged, Unauthenticated

SECRET = Secret.from_text("the secret of these tests")
OTHER = Secret.from_text("another job's secret here")


async def test_client_with_another_secret_learns_nothing(link_of):
    link = await link_of("a")
    with pytest.raises(Unauthenticated, match="secret"):
        await Connection.dial("127.0.0.1", link.port, OTHER.key)
    with pytest.raises(NotReady, match="secret"):
        await link.member("a", secret=OTHER).join({}, 0.2)
    assert link.coordinator.missing == {"a"}


async def test_authenticated_client_is_refused_with_the_reason(link_of):
    link = await link_of("a")
    connection = await Connection.dial("127.0.0.1", link.port, SECRET.key)
    connection.write(Join("b", "i", {}, 0))
    with pytest.raises(Refused, match="its members: a"):
        await connection.expect(Joined)
    await connection.close()


@pytest.mark.parametrize("first", [Alive(0), Left(0), Numbered(1, {})], ids=["alive", "left", "numbered"])
async def test_first_message_must_be_join(link_of, caplog, first):
    link = await link_of("a")
    connection = await Connection.dial("127.0.0.1", link.port, SECRET.key)
    connection.write(first)
    with pytest.raises(ConnectionError):
        await connection.read()
    await connection.close()
    assert "expected Join" in caplog.text and link.coordinator.missing == {"a"}


@pytest.mark.parametrize("trick", TRICKS)
async def test_lines_of_members_cannot_be_forged(link_of, caplog, trick):
    link = await link_of("a", handshake_s=20.0)
    with between(link.port, trick, "up") as relay:
        connection = await Connection.dial("127.0.0.1", relay.port, SECRET.key)
        connection.write(Join("a", "i", {}, 0))
        connection.write(Numbered(1, {"type": "first"}))
        connection.write(Numbered(2, {"type": "second"}))
        with contextlib.suppress(OSError, MessageError):
            while True:
                await connection.read()
        await connection.close()
    while ("in the middle" if trick == "cuts" else "interferes") not in caplog.text:
        await asyncio.sleep(0.01)
    assert "message" not in link.kinds()


@pytest.mark.parametrize("trick", TRICKS)
async def test_lines_of_the_server_cannot_be_forged(link_of, trick):
    link = await link_of("a")
    with between(link.port, trick, "down") as relay:
        connection = await Connection.dial("127.0.0.1", relay.port, SECRET.key)
        connection.write(Join("a", "i", {}, 0))
        found = []
        link.coordinator.send("a", {"type": "first"})
        with pytest.raises(MessageError if trick == "cuts" else Forged):
            while True:
                found.append(await connection.read())
        await connection.close()
    assert all(isinstance(message, Joined) for message in found) and len(found) == (trick == "repeats")
