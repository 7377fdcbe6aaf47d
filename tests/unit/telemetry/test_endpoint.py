"""The endpoint for Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping

import pytest
from prometheus_text import read
from siege import run

from tfhet.cluster import check_free
from tfhet.telemetry import UP, Metric, endpoint, serve_metrics

HOST = "127.0.0.1"
GOOD = b"GET /metrics HTTP/1.1\r\nHost: algo-1:9400\r\nAccept: text/plain\r\n\r\n"
LABELS = {"training_job": "job", "host": "algo-1"}


async def ask(port: int, *pieces: bytes) -> bytes:
    """The answer to some bytes."""
    reader, writer = await asyncio.open_connection(HOST, port)
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


def body(answer: bytes) -> str:
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0].endswith(b" 200 OK") and b"Content-Type: text/plain; version=0.0.4" in head
    return content.decode()


def test_request_gets_current_values(capfd):
    values, threads, lines = {UP: 0.0}, set(), list[str]()

    def current() -> Mapping[Metric, float]:
        threads.add(threading.current_thread())
        return values

    async def scenario() -> None:
        task = asyncio.create_task(serve_metrics(HOST, 0, current, LABELS, lines.append))
        while not lines:
            await asyncio.sleep(0.01)
        port = int(lines[0].rpartition(":")[2].removesuffix("/metrics"))
        assert read(body(await ask(port, GOOD)))["tfhet_up"].value == 0
        values[UP] = 1.0
        found = read(body(await ask(port, GOOD[:5], GOOD[5:30], GOOD[30:])))
        assert [(name, family.kind, family.value) for name, family in found.items()] == [("tfhet_up", "gauge", 1.0)]
        assert found["tfhet_up"].labels == LABELS and found["tfhet_up"].help == UP.help
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        check_free(port, HOST)

    run(scenario())
    assert threads == {threading.current_thread()}, "values are read on the event loop"
    assert len(lines) == 1 and capfd.readouterr() == ("", "")


@pytest.mark.parametrize("request_", [b"", GOOD[:20]])
def test_unfinished_request_is_dropped(request_, monkeypatch, capfd):
    """Other wrong requests: tests/property/test_fuzz_endpoint.py."""
    monkeypatch.setattr(endpoint._Handler, "timeout", 0.05)
    server = endpoint.MetricsServer(HOST, 0, lambda: {UP: 1.0}, LABELS)
    assert asyncio.run(ask(server.server_port, request_)) == b""
    assert "tfhet_up" in body(asyncio.run(ask(server.server_port, GOOD)))
    server.end()
    assert capfd.readouterr() == ("", "")


def test_failure_to_read_is_a_server_error():
    def fail() -> Mapping[Metric, float]:
        raise RuntimeError

    server = endpoint.MetricsServer(HOST, 0, fail, LABELS)
    assert b" 500 " in asyncio.run(ask(server.server_port, GOOD)).split(b"\r\n")[0]
    server.end()


def test_impossible_port_is_reported():
    lines: list[str] = []
    run(serve_metrics(HOST, 70_000, dict, LABELS, lines.append))
    assert len(lines) == 1 and "--metrics_port" in lines[0] and "70000" in lines[0]
