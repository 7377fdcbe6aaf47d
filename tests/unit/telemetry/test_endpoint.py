"""launch/endpoint.py: answers who asks for /metrics, survives all others, and leaves nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from siege import run

from tfhet.cluster import check_free
from tfhet.launch import endpoint as module
from tfhet.launch.endpoint import CONNECTIONS, REQUEST_BYTES, Endpoint
from tfhet.launch.exposition import CONTENT_TYPE

HOST = "127.0.0.1"
GOOD = b"GET /metrics HTTP/1.1\r\nHost: algo-1:9400\r\nAccept: text/plain\r\n\r\n"
Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def served(visit: Callable[[Open], Coroutine[Any, Any, None]], text: str = "a 1\n") -> None:
    """Runs `visit` against an endpoint; afterwards no task, no socket and no listener may be left."""

    async def scenario() -> None:
        endpoint = Endpoint(lambda: text)
        port = await endpoint.open(HOST, 0)
        try:
            await visit(lambda: asyncio.open_connection(HOST, port))
        finally:
            await endpoint.close()
        check_free(port, HOST)

    run(scenario())


async def ask(connect: Open, *pieces: bytes) -> bytes:
    """All that is answered to some bytes."""
    reader, writer = await connect()
    answer = b""
    with contextlib.suppress(OSError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        answer = await reader.read()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return answer


def answered(*pieces: bytes, text: str = "a 1\n") -> bytes:
    answers = []

    async def visit(connect: Open) -> None:
        answers.append(await ask(connect, *pieces))

    served(visit, text)
    return answers[0]


def head_and_body(answer: bytes) -> tuple[list[str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode().split("\r\n"), body


def test_metrics_are_answered_with_their_type_and_length():
    head, body = head_and_body(answered(GOOD, text="loss \u00b5\n"))
    assert head == [
        "HTTP/1.1 200 OK",
        f"Content-Type: {CONTENT_TYPE}",
        "Content-Length: 8",
        "Connection: close",
    ]
    assert body.decode() == "loss \u00b5\n"


def test_a_request_that_comes_in_pieces_is_answered():
    assert head_and_body(answered(GOOD[:5], GOOD[5:30], GOOD[30:]))[1] == b"a 1\n"
    assert head_and_body(answered(GOOD.replace(b"/metrics", b"/metrics?name=a")))[1] == b"a 1\n"


def test_the_head_alone_is_answered_without_a_body():
    head, body = head_and_body(answered(GOOD.replace(b"GET", b"HEAD")))
    assert head[0] == "HTTP/1.1 200 OK" and "Content-Length: 4" in head and body == b""


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (GOOD.replace(b"/metrics", b"/"), "404 Not Found"),
        (GOOD.replace(b"/metrics", b"/metrics/../../etc/passwd"), "404 Not Found"),
        (GOOD.replace(b"GET", b"POST"), "405 Method Not Allowed"),
        (GOOD.replace(b"HTTP/1.1", b"SMTP"), "400 Bad Request"),
        (b"\x16\x03\x01\x02\0\x01\0\r\n\r\n", "400 Bad Request"),
        (GOOD[:-2] + b"X: " + b"x" * REQUEST_BYTES, "431 Request Header Fields Too Large"),
    ],
)
def test_what_is_not_a_request_for_metrics_is_refused_in_words_of_http(request_, status):
    head, _ = head_and_body(answered(request_))
    assert head[0] == f"HTTP/1.1 {status}"
    assert "Connection: close" in head


def test_who_hangs_up_before_the_end_of_the_request_gets_nothing():
    async def visit(connect: Open) -> None:
        reader, writer = await connect()
        writer.write(GOOD[:20])
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        assert head_and_body(await ask(connect, GOOD))[1] == b"a 1\n"

    served(visit)


def test_who_says_nothing_is_dropped_after_a_while(monkeypatch):
    monkeypatch.setattr(module, "CONNECTION_S", 0.05)
    assert answered() == b""


def test_too_many_at_a_time_are_turned_away_and_the_next_one_is_answered():
    async def visit(connect: Open) -> None:
        silent = [await connect() for _ in range(CONNECTIONS)]
        assert await ask(connect, GOOD) == b""
        for _, writer in silent:
            writer.close()
        while not (answer := await ask(connect, GOOD)):
            await asyncio.sleep(0.01)
        assert head_and_body(answer)[1] == b"a 1\n"

    served(visit)


def test_who_is_still_connected_at_the_end_is_dropped():
    async def scenario() -> None:
        endpoint = Endpoint(lambda: "")
        port = await endpoint.open(HOST, 0)
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(GOOD[:10])
        await asyncio.sleep(0.02)
        await endpoint.close()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()

    run(scenario())


def test_it_serves_until_it_is_cancelled_and_says_where():
    said: list[str] = []

    async def scenario() -> None:
        endpoint = Endpoint(lambda: "", said.append)
        task = asyncio.create_task(endpoint.run(HOST, 0))
        while not said:
            await asyncio.sleep(0.01)
        port = int(said[0].split(":")[-1].removesuffix("/metrics"))
        answer = await ask(lambda: asyncio.open_connection(HOST, port), GOOD)
        assert answer.startswith(b"HTTP/1.1 200")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        check_free(port, HOST)

    run(scenario())
    assert said[0].startswith(f"metrics for Prometheus: http://{HOST}:")


@pytest.mark.parametrize("port", ["busy", 70_000])
def test_a_port_that_cannot_be_had_is_said_and_nothing_else_happens(port):
    said: list[str] = []

    async def scenario() -> None:
        first = Endpoint(lambda: "")
        taken = await first.open(HOST, 0)
        await Endpoint(lambda: "", said.append).run(HOST, taken if port == "busy" else port)
        await first.close()

    run(scenario())
    assert len(said) == 1 and said[0].startswith("no metrics at --metrics_port: ")
    assert port != "busy" or "is in use by" in said[0]
