from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from tfhet.control import Secret, message
from tfhet.control.connection import Connection
from tfhet.control.handshake import JoinRequest, Refused, Unauthenticated, admit, introduce
from tfhet.errors import TfhetError
from tfhet.schema import MessageError

Run = Callable[[Coroutine[Any, Any, Any]], Any]
SECRET = Secret.from_text("the secret of these tests")
OTHER = Secret.from_text("another job's secret here")
JOINING = JoinRequest("algo-2", "i1", {"cores": 4}, 3)
JOINED = message.Joined(10.0, 0)
NONCE = "0" * 64
Side = Callable[[Connection], Awaitable[Any]]


async def _meet(coordinator: Side, member: Side) -> tuple[Any, Any]:
    """Runs both sides over a real connection; gives what each returned or raised."""
    accepted: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda r, w: accepted.set_result(Connection(r, w)), "127.0.0.1", 0)
    there = await Connection.dial("127.0.0.1", server.sockets[0].getsockname()[1])
    here = await accepted

    async def one(side: Side, connection: Connection) -> Any:
        try:
            return await side(connection)
        except (OSError, TfhetError) as error:
            return error
        finally:
            await connection.close()

    results = await asyncio.gather(one(coordinator, here), one(member, there))
    server.close()
    await server.wait_closed()
    return results[0], results[1]


def _admit(secret: Secret, objection: Callable[[str, str], str | None] = lambda n, i: None) -> Side:
    async def side(connection: Connection) -> JoinRequest:
        newcomer = await admit(connection, secret, objection)
        connection.write(JOINED)
        return newcomer

    return side


def _introduce(secret: Secret) -> Side:
    return lambda connection: introduce(connection, secret, JOINING)


def test_two_that_know_the_secret_meet(run: Run) -> None:
    there, here = run(_meet(_admit(SECRET), _introduce(SECRET)))
    assert there == JOINING
    assert here == JOINED


def test_a_member_with_another_secret_is_told_nothing(run: Run) -> None:
    there, here = run(_meet(_admit(SECRET, lambda n, i: pytest.fail("asked")), _introduce(OTHER)))
    assert isinstance(there, Unauthenticated)
    assert isinstance(here, Unauthenticated)
    assert "same on both hosts" in str(here)


def test_a_member_is_refused_with_the_reason_once_it_has_proved_itself(run: Run) -> None:
    there, here = run(_meet(_admit(SECRET, lambda name, instance: f"{name}, {instance}: no"), _introduce(SECRET)))
    assert isinstance(there, Refused)
    assert isinstance(here, Refused)
    assert str(here) == "algo-2, i1: no"


def test_a_refusal_without_proof_is_not_believed(run: Run) -> None:
    async def stranger(connection: Connection) -> None:
        connection.write(message.Hello(message.VERSION, NONCE))
        await connection.read()
        connection.write(message.Refused("go away"))

    _, here = run(_meet(stranger, _introduce(SECRET)))
    assert isinstance(here, MessageError)


def test_a_false_coordinator_is_found_out(run: Run) -> None:
    async def false_coordinator(connection: Connection) -> None:
        connection.write(message.Hello(message.VERSION, NONCE))
        join = await connection.read()
        connection.write(message.Welcome(join.proof))  # the member's own proof, sent back
        with pytest.raises(ConnectionError):
            await connection.read()

    there, here = run(_meet(false_coordinator, _introduce(SECRET)))
    assert there is None
    assert isinstance(here, Unauthenticated)


def test_an_overheard_proof_is_of_no_use(run: Run) -> None:
    overheard: list[message.AnyMessage] = []

    async def listening_member(connection: Connection) -> None:
        await introduce(connection, SECRET, JOINING)

    async def spying_coordinator(connection: Connection) -> None:
        read = connection.read

        async def spy() -> message.AnyMessage:
            overheard.append(await read())
            return overheard[-1]

        connection.read = spy  # type: ignore[method-assign]
        await _admit(SECRET)(connection)

    run(_meet(spying_coordinator, listening_member))

    async def replaying(connection: Connection) -> None:
        await connection.read()
        connection.write(overheard[0])
        with pytest.raises(ConnectionError):
            await connection.read()

    there, _ = run(_meet(_admit(SECRET), replaying))
    assert isinstance(overheard[0], message.Join)
    assert isinstance(there, Unauthenticated)


@pytest.mark.parametrize(
    "answer", [message.Alive(0), message.Join("a", "i", "short", "x"), message.Join("a\nb", "i", NONCE, "x")]
)
def test_a_malformed_answer_is_a_message_error(run: Run, answer: message.AnyMessage) -> None:
    async def member(connection: Connection) -> None:
        await connection.read()
        connection.write(answer)

    there, _ = run(_meet(_admit(SECRET), member))
    assert isinstance(there, MessageError)


@pytest.mark.parametrize("proof", ["", "0" * 64, "\ud800" * 64, "é"])
def test_a_wrong_proof_is_not_a_proof_whatever_it_holds(run: Run, proof: str) -> None:
    async def member(connection: Connection) -> None:
        await connection.read()
        connection.write(message.Join("a", "i", NONCE, proof))

    there, _ = run(_meet(_admit(SECRET), member))
    assert isinstance(there, Unauthenticated)


@pytest.mark.parametrize("hello", [message.Hello(1, NONCE), message.Hello(message.VERSION, "")])
def test_another_version_or_nonce_is_a_message_error(run: Run, hello: message.Hello) -> None:
    async def coordinator(connection: Connection) -> None:
        connection.write(hello)

    _, here = run(_meet(coordinator, _introduce(SECRET)))
    assert isinstance(here, MessageError)


@pytest.mark.parametrize("trick", ["adds", "changes", "repeats", "leaves out"])
def test_one_who_passes_the_handshake_on_cannot_speak_after_it(run: Run, trick: str) -> None:
    """A relay without the secret, between a member and the true server."""

    def forged(lines: list[bytes]) -> list[bytes]:
        first, second = lines
        return {
            "adds": [first, b'{"type":"end","code":0,"cause":"training is complete"}\n', second],
            "changes": [first, second.replace(b'"seen":7', b'"seen":8')],
            "repeats": [first, first, second],
            "leaves out": [second],
        }[trick]

    async def scenario() -> list[message.AnyMessage]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = Connection(reader, writer)
            await _admit(SECRET)(connection)
            connection.write(message.Alive(6))
            connection.write(message.Alive(7))
            await connection.close()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, to_there = await asyncio.open_connection(*server.sockets[0].getsockname())
            down, up = (there, writer), (reader, to_there)
            for source, sink in (down, up, down, up, down):  # hello, join, welcome, facts, joined
                sink.write(await source.readline())
            for line in forged([await there.readline(), await there.readline()]):
                writer.write(line)
            for end in (writer, to_there):
                end.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        between = await asyncio.start_server(relay, "127.0.0.1", 0)
        connection = await Connection.dial(*between.sockets[0].getsockname())
        heard = []
        try:
            assert await introduce(connection, SECRET, JOINING) == JOINED
            with pytest.raises(MessageError, match="somebody else"):
                while True:
                    heard.append(await connection.read())
        finally:
            await connection.close()
            for each in (server, between):
                each.close()
                await each.wait_closed()
        return heard

    heard = run(scenario())
    assert heard == ([] if trick == "leaves out" else [message.Alive(6)])
