from __future__ import annotations

import asyncio

import pytest

from tfhet.control import Secret, message
from tfhet.control.connection import Connection
from tfhet.control.handshake import JoinRequest, Refused, Unauthenticated, admit, introduce
from tfhet.errors import TfhetError
from tfhet.schema import MessageError

SECRET = Secret.from_text("the secret of these tests")
OTHER = Secret.from_text("another job's secret here")
JOINING = JoinRequest("algo-2", "i1", {"cores": 4}, 3)
JOINED = message.Joined(10.0, 0)
NONCE = "0" * 64
HELLO = message.Hello(message.VERSION, NONCE)


async def _meet(server_side, client_side):
    """Runs both sides over a real connection; returns the result or the error of each."""
    accepted = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda r, w: accepted.set_result(Connection(r, w)), "127.0.0.1", 0)
    there = await Connection.dial("127.0.0.1", server.sockets[0].getsockname()[1])
    here = await accepted

    async def one(side, connection):
        try:
            return await side(connection)
        except (OSError, TfhetError) as error:
            return error
        finally:
            await connection.close()

    results = await asyncio.gather(one(server_side, here), one(client_side, there))
    server.close()
    await server.wait_closed()
    return results


def _admit(objection=lambda name, instance: None):
    async def side(connection):
        newcomer = await admit(connection, SECRET, objection)
        connection.write(JOINED)
        return newcomer

    return side


def _introduce(secret=SECRET):
    return lambda connection: introduce(connection, secret, JOINING)


def _says(*messages):
    """A side that answers each message that it reads; a server says the first one unasked."""

    async def side(connection):
        for each in messages:
            connection.write(each)
            await connection.read()

    return side


def _answers(answer):
    """A client that sends one message after the server's first one."""

    async def side(connection):
        await connection.read()
        connection.write(answer)

    return side


async def test_two_that_know_the_secret_meet():
    assert await _meet(_admit(), _introduce()) == [JOINING, JOINED]


async def test_client_with_another_secret_learns_nothing():
    there, here = await _meet(_admit(lambda name, instance: pytest.fail("asked")), _introduce(OTHER))
    assert isinstance(there, Unauthenticated) and isinstance(here, Unauthenticated)
    assert "secret" in str(here)


async def test_authenticated_client_is_refused_with_the_reason():
    there, here = await _meet(_admit(lambda name, instance: f"{name}, {instance}: no"), _introduce())
    assert isinstance(there, Refused) and isinstance(here, Refused)
    assert str(here) == "algo-2, i1: no"


@pytest.mark.parametrize(
    "said",
    [(HELLO, message.Refused("go away")), (message.Hello(1, NONCE),), (message.Hello(message.VERSION, ""),)],
    ids=["refusal without proof", "version", "nonce"],
)
async def test_odd_server_is_a_message_error(said):
    _, here = await _meet(_says(*said), _introduce())
    assert isinstance(here, MessageError)


async def test_reflected_proof_is_not_accepted():
    async def server(connection):
        connection.write(HELLO)
        join = await connection.read()
        connection.write(message.Welcome(join.proof))
        with pytest.raises(ConnectionError):
            await connection.read()

    there, here = await _meet(server, _introduce())
    assert there is None and isinstance(here, Unauthenticated)


async def test_replayed_proof_is_not_accepted():
    overheard = []

    async def spying(connection):
        read = connection.read

        async def spy():
            overheard.append(await read())
            return overheard[-1]

        connection.read = spy
        await _admit()(connection)

    await _meet(spying, _introduce())
    assert isinstance(overheard[0], message.Join)
    there, _ = await _meet(_admit(), _answers(overheard[0]))
    assert isinstance(there, Unauthenticated)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (message.Alive(0), MessageError),
        (message.Join("a", "i", "short", "x"), MessageError),
        (message.Join("a\nb", "i", NONCE, "x"), MessageError),
        *((message.Join("a", "i", NONCE, proof), Unauthenticated) for proof in ("", NONCE, "\ud800" * 64, "é")),
    ],
    ids=range(7),
)
async def test_odd_client_is_not_admitted(answer, error):
    there, _ = await _meet(_admit(), _answers(answer))
    assert isinstance(there, error)


@pytest.mark.parametrize("trick", ["adds", "changes", "repeats", "leaves out"])
async def test_relay_cannot_speak_after_the_handshake(false_server, trick):
    """A relay without the secret, between a member and the true server."""

    def forged(first, second):
        return {
            "adds": [first, b'{"type":"end","code":0,"cause":"training is complete"}\n', second],
            "changes": [first, second.replace(b'"seen":7', b'"seen":8')],
            "repeats": [first, first, second],
            "leaves out": [second],
        }[trick]

    async def serve(connection):
        await _admit()(connection)
        connection.write(message.Alive(6))
        connection.write(message.Alive(7))

    async def relay(connection):
        reader, writer = connection._reader, connection._writer
        there, to_there = await asyncio.open_connection("127.0.0.1", port)
        down, up = (there, writer), (reader, to_there)
        for source, sink in (down, up, down, up, down):  # hello, join, welcome, facts, joined
            sink.write(await source.readline())
        for line in forged(await there.readline(), await there.readline()):
            writer.write(line)
        to_there.close()

    port = await false_server(serve)
    connection = await Connection.dial("127.0.0.1", await false_server(relay))
    heard = []
    try:
        assert await introduce(connection, SECRET, JOINING) == JOINED
        with pytest.raises(MessageError):
            while True:
                heard.append(await connection.read())
    finally:
        await connection.close()
    assert heard == ([] if trick == "leaves out" else [message.Alive(6)])
