"""bench/transport.py: its options, its notes, and that a tiny measurement leaves nothing behind."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import psutil
import pytest

from tfhet.bench import transport
from tfhet.bench.suite import suite_named
from tfhet.bench.transport import SUITE, loads_of
from tfhet.bench.wire.load import SELECTION, Load
from tfhet.cli import bench as command
from tfhet.errors import UsageError
from tfhet.planes.tf_service import CLIENT, PREFIX, RATE, RATIO, WORKER, Moved
from tfhet.record import Record


def options(*words: str) -> argparse.Namespace:
    return command.parser(SUITE, "tfhet bench transport").parse_args(words)


def test_the_suite_is_listed():
    assert suite_named("transport") is SUITE


def test_nothing_asked_for_is_the_selection_and_one_option_makes_it_all_combinations():
    assert loads_of(options()) == SELECTION
    assert loads_of(options("--sizes", "1MB,150kB")) == (Load("uint8", "1MB"), Load("uint8", "150kB"))
    assert loads_of(options("--workers", "2", "--dtypes", "float32")) == (Load("float32", "19MB", workers=2),)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sizes", "1.6MB"], "size '1.6MB': give a whole number"),
        (["--sizes", ","], "--sizes: give at least one"),
        (["--compressions", "zip"], "unknown compression"),
        (["--ranks", "0"], "0 ranks"),
        (["--seconds", "0"], "--seconds 0: give more than 0"),
    ],
)
def test_options_that_measure_nothing_are_refused_before_anything_starts(words, said, monkeypatch):
    monkeypatch.setattr(transport, "turns_of", None)
    with pytest.raises(UsageError, match=said):
        SUITE.run(options(*words), lambda event: None, ())


def test_a_busy_machine_is_told_and_that_it_was_loopback():
    busy, loopback = SUITE.notes(Record("transport", details={"machine_busy_pct": 50.0}))
    assert "50 % busy" in busy and "loopback" in loopback


@pytest.mark.slow
def test_a_tiny_measurement_moves_batches_and_leaves_no_process_folder_or_port_behind():
    words = ["--sizes", "150kB", "--compressions", "snappy", "--dtypes", "float32", "--ranks", "2", "--seconds", "0.05"]
    # What the session's own look for leftovers would forgive for some seconds is to be gone at once.
    me, before = psutil.Process(), set(Path(tempfile.gettempdir()).iterdir())
    chosen = options(*words, "--repeats", "2", "--warmup", "0")
    record = SUITE.run(chosen, lambda event: None, ("tfhet",))
    assert me.children(recursive=True) == []
    assert [connection for connection in me.net_connections("tcp") if connection.status == psutil.CONN_LISTEN] == []
    assert set(Path(tempfile.gettempdir()).iterdir()) - before == set()
    stem = f"{PREFIX}.{Moved('float32', '150kB', 'snappy', ranks=2).key}"
    assert all(min(record.figures[f"{stem}.{what}"].samples) > 0 for what in (CLIENT, WORKER, RATE))
    assert 0 < record.figures[f"{stem}.{RATIO}"].value < 1
