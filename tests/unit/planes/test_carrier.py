"""planes/carrier.py: the cost of moving batches by a feed or by Ray, assumed or as it was measured."""

from __future__ import annotations

import pytest

from tfhet import planes
from tfhet.errors import UsageError
from tfhet.planes.carrier import FEED, RAY, READER, SERVER
from tfhet.record import Interval, Record

every = pytest.mark.parametrize("carrier", [FEED, RAY], ids=["feed", "ray"])


@pytest.fixture(scope="module")
def record(repository):
    return Record.read(repository / "results" / "transport.json")


@every
def test_what_is_assumed_is_what_one_record_holds_and_holds_what_the_other_does(repository, record, carrier):
    other = Record.read(repository / "results" / "transport-other-machine.json")
    for name, costs in carrier.known.items():
        for interval, what in zip(costs, (READER, SERVER), strict=True):
            figures = [one.figures[f"transport.{carrier.name}.{name}.{what}"] for one in (record, other)]
            assert interval.value == pytest.approx(figures[0].value, rel=0.01)
            assert interval.low == pytest.approx(min(figure.low for figure in figures), rel=0.01)
            assert interval.high == pytest.approx(max(figure.high for figure in figures), rel=0.01)


@every
def test_a_record_gives_its_figures_and_what_lies_between_them(record, carrier):
    wire = carrier.costs(record).wire
    exact = wire("uint8", 19_000_000, "none")
    assert exact.reader_s_per_gb == Interval.of(record.figures[f"transport.{carrier.name}.19MB.{READER}"])
    ends = [wire("uint8", size, "none").reader_s_per_gb.value for size in (1_600_000, 5_000_000, 19_000_000)]
    assert min(ends[0], ends[2]) <= ends[1] <= max(ends[0], ends[2])
    assert wire("uint8", 1, "none") == wire("float32", 150_000, "none")


@every
def test_what_a_carrier_does_not_do_is_refused(carrier):
    with pytest.raises(UsageError, match=f"{carrier.words} does not compress"):
        carrier.assumed.wire("uint8", 1000, "snappy")
    with pytest.raises(UsageError, match=f"has no figures of {carrier.words}"):
        carrier.costs(Record("other", {}))


def test_a_feed_costs_what_is_assumed():
    assert planes.get("feed").costs() is FEED.assumed


def test_a_record_gives_rays_cost_of_a_batch_with_what_its_processes_take(record):
    given, assumed = planes.get("ray").costs(record), planes.get("ray").costs()
    assert given.source == RAY.costs(record).source != assumed.source
    assert given.is_needed and given.leader_cpus.value == given.host_cpus.value == 0.0 < assumed.host_cpus.value


def test_a_host_has_all_processes_or_none():
    feed, ray = planes.get("feed"), planes.get("ray")
    assert feed.arguments(1, 0) == {"data_host_processes": 0, "dnn_host_processes": 0}
    assert feed.arguments(1, 1) == {"data_host_processes": 0, "dnn_host_processes": -1}
    assert ray.arguments(2, 0) == {"data_host_cpus": -1, "dnn_host_cpus": 0}
    assert ray.arguments(2, 1)["dnn_host_cpus"] == 1
