"""bench/transport.py: its options, what it says, and that a tiny measurement leaves nothing behind."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import psutil
import pytest

from benchmarks.peers.place import Place
from benchmarks.transport import allocator
from tfhet.bench import command, suites, transport
from tfhet.bench.transport import SUITE, loads_of
from tfhet.bench.wire import ways
from tfhet.bench.wire.load import SELECTION, Load
from tfhet.errors import UsageError
from tfhet.record import Figure, Record
from tfhet.record.wire_cost import wire_cost


def options(*words: str) -> argparse.Namespace:
    return command._parser(SUITE).parse_args(words)


def test_the_suite_is_listed():
    assert suites.get("transport") is SUITE


def test_nothing_asked_for_is_the_selection_and_one_option_makes_it_all_combinations():
    assert loads_of(options()) == SELECTION
    assert loads_of(options("--sizes", "1MB,150kB")) == (Load("uint8", "1MB"), Load("uint8", "150kB"))
    assert loads_of(options("--workers", "2", "--dtypes", "float32")) == (Load("float32", "19MB", workers=2),)
    assert {load.size for load in loads_of(options("--only", "150kB"))} == {"150kB"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sizes", "1.6MB"], "size '1.6MB': give a whole number"),
        (["--sizes", ","], "--sizes: give at least one"),
        (["--compressions", "zip"], "unknown compression"),
        (["--ranks", "0"], "0 ranks"),
        (["--seconds", "0"], "--seconds 0: give more than 0"),
        (["--peers", "carrier"], "unknown peer"),
    ],
)
def test_options_that_measure_nothing_are_refused_before_anything_starts(words, said, monkeypatch):
    monkeypatch.setattr(transport, "Ways", None)
    with pytest.raises(UsageError, match=said):
        SUITE.run(options(*words), lambda event: None, ())


def test_an_allocator_that_is_not_installed_is_missing_and_alone_it_is_refused(monkeypatch):
    monkeypatch.setattr(allocator, "tcmalloc", lambda env: None)
    with pytest.raises(UsageError, match="libtcmalloc is not installed"):
        SUITE.run(options("--allocators", "tcmalloc"), lambda event: None, ())


def test_the_notes_name_what_is_missing_and_that_it_was_loopback():
    assert SUITE.notes is not None
    record = Record(
        "transport", details={"missing": {"peer torch": "No module named 'torch'"}, "machine_busy_pct": 50.0}
    )
    missing, busy, loopback = SUITE.notes(record)
    assert missing == "missing: peer torch: No module named 'torch'"
    assert "50 % busy" in busy and "loopback" in loopback
    apart = Record("transport", details={"missing": {"peer ray": "No module named 'ray'"}})
    assert "--peers install" in SUITE.notes(apart)[1]


def test_the_plot_shows_the_reading_side_of_every_way():
    assert SUITE.bars is not None
    figure = Figure.single(1.0, unit="s/GB")
    names = ("transport.uint8.19MB.none.client_cpu_s_per_gb", "transport.raw_socket.19MB.client_cpu_s_per_gb")
    other = "transport.uint8.19MB.none.worker_cpu_s_per_gb"
    _, bars = SUITE.bars(Record("transport", dict.fromkeys((*names, other), figure)))
    assert list(bars) == ["uint8 19MB none", "raw_socket 19MB"]


@pytest.mark.slow
def test_a_tiny_measurement_moves_batches_and_leaves_no_process_folder_or_port_behind():
    words = ["--sizes", "150kB", "--compressions", "snappy", "--dtypes", "float32", "--ranks", "2", "--seconds", "0.05"]
    # What the session's own look for leftovers would forgive for some seconds is to be gone at once.
    me, before = psutil.Process(), set(Path(tempfile.gettempdir()).iterdir())
    chosen = options(*words, "--repeats", "2", "--warmup", "0", "--peers", "raw_socket")
    record = SUITE.run(chosen, lambda event: None, ("tfhet",))
    assert me.children(recursive=True) == []
    assert [connection for connection in me.net_connections("tcp") if connection.status == psutil.CONN_LISTEN] == []
    assert set(Path(tempfile.gettempdir()).iterdir()) - before == set()
    cost = wire_cost(record, "float32", 150_000, "snappy", ranks=2)
    assert min(cost.client_cpu_s_per_gb.samples) > 0 and min(cost.worker_cpu_s_per_gb.samples) > 0
    assert 0 < cost.wire_ratio.value < 1
    assert min(cost.gb_per_s.samples) > 0
    assert record.figures["transport.vs_raw_socket.float32.150kB.snappy.ranks_2"].n == 2


def test_what_a_peer_needs_is_installed_only_when_that_is_asked_for_and_its_version_is_told(monkeypatch):
    installed: list[str] = []
    peer = ways.Rival("apart", (), "torch", requires=("apart==1",))
    monkeypatch.setattr(ways, "RIVALS", (peer,))
    monkeypatch.setattr(Place, "missing", lambda self: None if installed else "not there")
    monkeypatch.setattr(Place, "install", lambda self: installed.append(self.peer.name))
    monkeypatch.setattr(transport, "figures_of", lambda *_: {})

    async def nothing(*_: object) -> tuple[dict[str, float], dict[str, list[object]]]:
        return {}, {}

    monkeypatch.setattr(transport, "_measured", nothing)
    for words, missing, told in (
        (["--peers", "apart"], {"peer apart": "not there"}, None),
        (["--peers", "install"], {}, ["apart==1"]),
    ):
        record = SUITE.run(options("--sizes", "1MB", *words), lambda event: None, ("tfhet",))
        found = Record.from_json(record.to_json()).details
        assert found["missing"] == missing and found["peers"].get("apart") == told
    assert installed == ["apart"]
