"""What the suite adds to `tfhet bench transport`: its options, what it says is missing, its picture."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.peers.place import Place
from benchmarks.transport import allocator, suite, ways
from benchmarks.transport.suite import SELECTION, SUITE, loads_of
from tfhet.cli import bench as command
from tfhet.errors import UsageError
from tfhet.record import Figure, Record


def options(*words: str) -> argparse.Namespace:
    return command.parser(SUITE, "python -m benchmarks.transport").parse_args(words)


def test_a_selection_can_be_narrowed_and_has_every_allocator():
    assert loads_of(options()) == SELECTION
    assert {load.size for load in loads_of(options("--only", "150kB"))} == {"150kB"}
    assert {load.allocator for load in SELECTION} == {"default", "small_pages", "tcmalloc"}
    with pytest.raises(UsageError, match="unknown allocator 'jemalloc'"):
        loads_of(options("--allocators", "jemalloc"))
    with pytest.raises(UsageError, match="unknown peer"):
        SUITE.run(options("--peers", "carrier"), lambda event: None, ())


def test_an_allocator_that_is_not_installed_is_missing_and_alone_it_is_refused(monkeypatch):
    monkeypatch.setattr(allocator, "tcmalloc", lambda env: None)
    with pytest.raises(UsageError, match="libtcmalloc is not installed"):
        SUITE.run(options("--allocators", "tcmalloc"), lambda event: None, ())


def test_the_notes_name_what_is_missing_and_that_it_was_loopback():
    record = Record(
        "transport", details={"missing": {"peer torch": "No module named 'torch'"}, "machine_busy_pct": 50.0}
    )
    missing, busy, loopback = SUITE.notes(record)
    assert missing == "missing: peer torch: No module named 'torch'"
    assert "50 % busy" in busy and "loopback" in loopback
    apart = Record("transport", details={"missing": {"peer ray": "No module named 'ray'"}})
    assert "--peers install" in SUITE.notes(apart)[1]


def test_the_plot_shows_the_reading_side_of_every_way():
    figure = Figure.single(1.0, unit="s/GB")
    names = ("transport.uint8.19MB.none.client_cpu_s_per_gb", "transport.raw_socket.19MB.client_cpu_s_per_gb")
    other = "transport.uint8.19MB.none.worker_cpu_s_per_gb"
    _, bars = suite.bars(Record("transport", dict.fromkeys((*names, other), figure)))
    assert list(bars) == ["uint8 19MB none", "raw_socket 19MB"]


def test_what_a_peer_needs_is_installed_only_when_that_is_asked_for_and_its_version_is_told(monkeypatch):
    installed: list[str] = []
    peer = ways.Rival("apart", (), "torch", requires=("apart==1",))
    monkeypatch.setattr(ways, "RIVALS", (peer,))
    monkeypatch.setattr(Place, "missing", lambda self: None if installed else "not there")
    monkeypatch.setattr(Place, "install", lambda self: installed.append(self.peer.name))
    monkeypatch.setattr(suite.transport, "turns_of", lambda *_: ({}, {}))
    monkeypatch.setattr(suite, "figures_of", lambda *_: {})
    monkeypatch.setattr(suite, "figures_of_rivals", lambda *_: {})
    for words, missing, told in (
        (["--peers", "apart"], {"peer apart": "not there"}, None),
        (["--peers", "install"], {}, ["apart==1"]),
    ):
        record = SUITE.run(options("--sizes", "1MB", *words), lambda event: None, ("tfhet",))
        found = Record.from_json(record.to_json()).details
        assert found["missing"] == missing and found["peers"].get("apart") == told
    assert installed == ["apart"]
