"""telemetry/endpoint.py and metrics_server.py: the values of now, a port that is taken, clients, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_text import read
from siege import run

from tfhet.cluster import check_free
from tfhet.messages import MetricLine
from tfhet.telemetry import METRICS, UP, Metric, metrics_server, serve_metrics, training_metrics

HOST = "127.0.0.1"
GOOD = b"GET /metrics HTTP/1.1\r\nHost: algo-1:9400\r\nAccept: text/plain\r\n\r\n"
LABELS = {"training_job": "job", "host": "algo-1"}
Values = Callable[[], Mapping[Metric, float]]


def served(visit: Callable[[int], Coroutine[Any, Any, None]], values: Values = lambda: {UP: 1.0}) -> list[str]:
    """Runs `visit` with the port of an endpoint; afterwards nothing may listen there. Returns its log."""
    said: list[str] = []

    async def scenario() -> None:
        task = asyncio.create_task(serve_metrics(HOST, 0, values, LABELS, said.append))
        while not said:
            await asyncio.sleep(0.01)
        port = int(said[0].rpartition(":")[2].removesuffix("/metrics"))
        try:
            await visit(port)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        check_free(port, HOST)

    run(scenario())
    return said


async def ask(port: int, *pieces: bytes) -> bytes:
    """All that is answered to some bytes."""
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
    assert head.split(b"\r\n")[0].endswith(b" 200 OK")
    return content.decode()


def test_each_request_is_answered_with_the_values_of_now():
    values, threads = {UP: 0.0}, set()

    def current() -> Mapping[Metric, float]:
        threads.add(threading.current_thread())
        return values

    async def visit(port: int) -> None:
        assert read(body(await ask(port, GOOD)))["tfhet_up"].value == 0
        values[UP] = 1.0
        found = read(body(await ask(port, GOOD[:5], GOOD[5:30], GOOD[30:])))
        assert [(name, family.kind, family.value) for name, family in found.items()] == [("tfhet_up", "gauge", 1.0)]
        assert found["tfhet_up"].labels == LABELS and found["tfhet_up"].help == UP.help

    said = served(visit, current)
    assert threads == {threading.current_thread()}, "values are read where they change"
    assert len(said) == 1 and said[0].startswith(f"metrics for Prometheus: http://{HOST}:")


def test_the_format_is_the_one_that_prometheus_reads_by_default():
    async def visit(port: int) -> None:
        head = (await ask(port, GOOD)).partition(b"\r\n\r\n")[0].decode().split("\r\n")
        assert any(line.startswith("Content-Type: text/plain; version=0.0.4") for line in head)

    served(visit)


@pytest.mark.parametrize(
    "request_", [GOOD.replace(b"GET", b"POST"), GOOD.replace(b"HTTP/1.1", b"SMTP"), b"\x16\x03\x01\x02\0\x01\0\r\n\r\n"]
)
def test_what_is_not_a_request_for_metrics_gets_none_and_the_next_one_does(request_, capfd):
    async def visit(port: int) -> None:
        assert b"tfhet_up" not in await ask(port, request_)
        assert "tfhet_up" in body(await ask(port, GOOD))

    served(visit)
    assert capfd.readouterr() == ("", "")


def test_values_that_cannot_be_read_are_an_error_of_the_server():
    def fail() -> Mapping[Metric, float]:
        raise RuntimeError("no values")

    server = metrics_server.MetricsServer(HOST, 0, fail, LABELS)
    assert b" 500 " in asyncio.run(ask(server.server_port, GOOD)).split(b"\r\n")[0]
    server.end()


@pytest.mark.parametrize("sent", [b"", GOOD[:20]])
def test_a_client_that_does_not_finish_its_request_is_dropped_after_a_while(sent, monkeypatch, capfd):
    monkeypatch.setattr(metrics_server._Handler, "timeout", 0.05)

    async def visit(port: int) -> None:
        assert await ask(port, sent) == b""
        assert "tfhet_up" in body(await ask(port, GOOD))

    served(visit)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("port", ["busy", 70_000])
def test_a_port_that_cannot_be_had_is_said_and_nothing_else_happens(port):
    said: list[str] = []
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        wanted = taken.getsockname()[1] if port == "busy" else port
        run(serve_metrics(HOST, wanted, dict, LABELS, said.append))
    assert len(said) == 1 and said[0].startswith("no metrics at --metrics_port: ")
    assert port != "busy" or "is in use by" in said[0]


def test_training_metrics_are_the_totals_and_the_last_line_as_far_as_they_are_known():
    totals = {"steps": 7, "examples": 896.0, "step_s": 1.5, "wait_s": 0.25}
    line = MetricLine(7, 2, 200.0, 640.0, 12.5, 1.25)
    assert {metric.name: value for metric, value in training_metrics(totals, line).items()} == {
        "tfhet_steps_total": 7,
        "tfhet_examples_total": 896,
        "tfhet_step_seconds_total": 1.5,
        "tfhet_wait_seconds_total": 0.25,
        "tfhet_epoch": 2,
        "tfhet_loss": 1.25,
    }
    assert training_metrics({}, None) == {}
    assert [metric.name for metric in training_metrics({}, MetricLine(7, 2, 200.0, 640.0, 12.5))] == ["tfhet_epoch"]


@given(
    st.dictionaries(st.sampled_from(["host", "group", "rank"]), st.text(st.characters(exclude_categories=["Cs"]))),
    st.dictionaries(st.sampled_from(METRICS), st.floats() | st.integers(0, 2**70)),
)
def test_any_name_and_number_is_read_back(labels, numbers):
    registry = CollectorRegistry()
    registry.register(metrics_server._Values(lambda: numbers, labels))
    found = read(generate_latest(registry).decode())
    assert {name: (family.kind, family.help, family.labels) for name, family in found.items()} == {
        metric.name: (metric.kind, metric.help, labels) for metric in numbers
    }
    for metric, value in numbers.items():
        assert found[metric.name].value == float(value) or math.isnan(value)
