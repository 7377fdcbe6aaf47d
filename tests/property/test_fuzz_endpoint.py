"""Whatever comes to the port for Prometheus, the next request is answered, whatever came before."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest
from hypothesis import strategies as st
from rubbish import fuzz
from siege import run

from tfhet.telemetry import UP
from tfhet.telemetry.endpoint import MetricsServer

requests = st.binary(max_size=60) | st.builds(
    lambda method, path, version, fields: method + b" " + path + b" " + version + b"\r\n" + fields + b"\r\n\r\n",
    st.sampled_from([b"GET", b"get", b"", b"POST", b"\xff", b"G" * 40]),
    st.sampled_from([b"/metrics", b"/", b"", b"*", b"\0", b"/\xff", b"/metrics?" + b"x" * 3000, b"http://a/metrics"]),
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2", b"", b"\0"]),
    st.binary(max_size=20) | st.sampled_from([b"A: b", b"x" * 9000, b"Content-Length: 99999999999"]),
)

SERVER: MetricsServer


async def asked(port: int, content: bytes) -> bytes:
    """The answer to some bytes and an end of file."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    with contextlib.suppress(OSError):
        writer.write(content)
        writer.write_eof()
        answer = await reader.read()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return answer


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[MetricsServer]:
    """One server for all examples."""
    global SERVER
    SERVER = MetricsServer("127.0.0.1", 0, lambda: {UP: 1.0}, {"host": "a"})
    yield SERVER
    SERVER.end()


@fuzz(40, st.lists(requests, min_size=1, max_size=4))
def test_whatever_is_sent_the_next_one_is_answered(sent: list[bytes]) -> None:
    async def scenario() -> None:
        for content in sent:
            await asked(SERVER.server_port, content)
        answer = await asked(SERVER.server_port, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert answer.endswith(b'tfhet_up{host="a"} 1.0\n')
        while any("process_request" in thread.name for thread in threading.enumerate()):
            await asyncio.sleep(0.001)

    run(scenario())
