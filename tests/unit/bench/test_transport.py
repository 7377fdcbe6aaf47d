"""bench/transport.py: the options of the transport benchmark."""

from __future__ import annotations

import argparse

import pytest

from tfhet.bench import transport
from tfhet.bench.transport import loads_of
from tfhet.bench.wire.load import SELECTION, Load
from tfhet.errors import UsageError
from tfhet.record import Record


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    transport.options_of_loads(parser)
    return parser.parse_args(words)


def test_one_option_selects_all_its_combinations():
    assert loads_of(options()) == SELECTION
    assert loads_of(options("--sizes", "1MB,150kB")) == (Load("uint8", "1MB"), Load("uint8", "150kB"))
    assert loads_of(options("--workers", "2", "--dtypes", "float32")) == (Load("float32", "19MB", workers=2),)


@pytest.mark.parametrize(
    "words",
    [["--sizes", "1.6MB"], ["--sizes", ","], ["--compressions", "zip"], ["--ranks", "0"], ["--seconds", "0"]],
)
def test_options_that_measure_nothing_are_refused(words):
    with pytest.raises(UsageError):
        loads_of(options(*words))


def test_busy_machine_is_reported():
    busy, _ = transport.notes(Record("transport", details={"machine_busy_pct": 50.0}))
    assert "50 % busy" in busy
