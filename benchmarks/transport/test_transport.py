"""The figures of the suite, its ways, and a way that cannot be opened."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.transport import ends, suite
from benchmarks.transport.suite import SUITE, figures_of
from tfhet.bench.lane import CLIENTS, WORKERS, Turn
from tfhet.cli import bench as command
from tfhet.errors import UsageError
from tfhet.record import Record


def options(*words: str) -> argparse.Namespace:
    return command.parser(SUITE, "python -m benchmarks.transport").parse_args(words)


def turns(client: float, worker: float) -> list[Turn]:
    return [Turn(10**9, {CLIENTS: client * more, WORKERS: worker}, 2.0) for more in (1, 1, 2)]


def test_each_way_is_compared_with_the_socket() -> None:
    figures = figures_of({"raw_socket.19MB": turns(0.25, 0.25), "feed.19MB": turns(1.0, 0.5), "feed.1MB": turns(1, 1)})
    assert figures["transport.feed.19MB.client_cpu_s_per_gb"].value == 1.0
    assert figures["transport.feed.19MB.worker_cpu_s_per_gb"].value == 0.5
    assert figures["transport.feed.19MB.gb_per_s"].value == 2.0
    ratios = {name: figure for name, figure in figures.items() if ".vs_" in name}
    assert list(ratios) == ["transport.vs_raw_socket.feed.19MB"]
    assert ratios["transport.vs_raw_socket.feed.19MB"].samples == pytest.approx((3.0, 3.0, 2.5 / 0.75))


def test_table_has_row_per_way() -> None:
    keys = [f"{way}.{size}" for way in ("raw_socket", "feed") for size in ("1MB", "2MB")]
    shown = SUITE.notes(Record("transport", figures_of({key: turns(1.0, 0.5) for key in keys})))[0]
    rows = [line.split() for line in shown.splitlines() if line.strip().startswith(("raw_socket", "feed"))]
    assert [row[0] for row in rows] == ["raw_socket", "feed"]
    assert [cell for cell in rows[1] if cell.endswith("x)")] == ["(1.00x)", "(1.00x)"]


@pytest.mark.parametrize("words", [("--ways", "carrier"), ("--sizes", "12"), ("--sizes", ""), ("--seconds", "0")])
def test_wrong_options_are_refused(words: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        SUITE.run(options(*words), lambda event: None, ())


def test_way_that_cannot_open_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(suite.WAYS, "broken", {})
    words = ["--ways", "broken,raw_socket", "--sizes", "1MB", "--seconds", "0.01", "--repeats", "2", "--warmup", "0"]
    record = SUITE.run(options(*words), lambda event: None, ("command",))
    assert list(record.details["missing"]) == ["broken.1MB"]
    assert {name for name in record.figures if "client" in name} == {"transport.raw_socket.1MB.client_cpu_s_per_gb"}
    assert any("broken.1MB" in line for line in SUITE.lines(record))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_way_moves_batches() -> None:
    pytest.importorskip("tensorflow")
    words = ["--sizes", "150kB", "--seconds", "0.01", "--repeats", "1", "--warmup", "0"]
    record = SUITE.run(options(*words), lambda event: None, ("command",))
    assert record.details["missing"] == {}
    moved = [name for name, figure in record.figures.items() if name.endswith(".gb_per_s") and figure.value > 0.0]
    assert moved == [f"transport.{way}.150kB.gb_per_s" for way in ends.WAYS]
