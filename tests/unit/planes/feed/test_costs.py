"""planes/feed/costs.py: the cost of moving batches by a feed, assumed or as it was measured."""

from __future__ import annotations

import pytest

from tfhet import planes
from tfhet.errors import UsageError
from tfhet.planes.feed.costs import _ASSUMED, ASSUMED, READER, SERVER, measured_costs
from tfhet.record import Interval, Record


@pytest.fixture(scope="module")
def record(repository):
    return Record.read(repository / "results" / "transport.json")


def test_what_is_assumed_is_what_the_record_holds(record):
    for name, costs in _ASSUMED.items():
        for interval, what in zip(costs, (READER, SERVER), strict=True):
            figure = record.figures[f"transport.feed.{name}.{what}"]
            assert interval.value == pytest.approx(figure.value, rel=0.03)
            assert (interval.low, interval.high) == pytest.approx((figure.low, figure.high), rel=0.03)


def test_a_record_gives_its_figures_and_what_lies_between_them(record):
    wire = measured_costs(record).wire
    exact = wire("uint8", 19_000_000, "none")
    assert exact.reader_s_per_gb == Interval.of(record.figures[f"transport.feed.19MB.{READER}"])
    ends = [wire("uint8", size, "none").reader_s_per_gb.value for size in (1_600_000, 5_000_000, 19_000_000)]
    assert min(ends[0], ends[2]) <= ends[1] <= max(ends[0], ends[2])
    assert wire("uint8", 1, "none") == wire("float32", 150_000, "none")


def test_what_a_feed_does_not_do_is_refused():
    with pytest.raises(UsageError, match="a feed does not compress"):
        ASSUMED.wire("uint8", 1000, "snappy")
    with pytest.raises(UsageError, match="has no figures of a feed"):
        measured_costs(Record("other", {}))
    plane = planes.get("feed")
    assert plane.costs() is ASSUMED
    assert plane.arguments(1, 0) == {"data_host_processes": 0, "dnn_host_processes": 0}
    assert plane.arguments(1, 1) == {"data_host_processes": 0, "dnn_host_processes": -1}
