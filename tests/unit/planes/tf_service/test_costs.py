"""planes/tf_service/costs.py: the cost of moving batches, assumed or as it was measured."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given, strategies as st

from tfhet.errors import UsageError
from tfhet.planes import WireCost
from tfhet.planes.carrier import SIZES
from tfhet.planes.tf_service.costs import (
    _ASSUMED_WIRE,
    ASSUMED,
    CLIENT,
    PREFIX,
    RATE,
    RATIO,
    WORKER,
    Moved,
    measured_costs,
)
from tfhet.record import Figure, Interval, Record


def figures(stem: str, client: float, worker: float = 1.0, rate: float = 1.0, ratio: float | None = None):
    made = {
        f"{PREFIX}.{stem}.{CLIENT}": Figure(client, client - 0.25, client + 0.5, "s/GB", 5, None, (client,)),
        f"{PREFIX}.{stem}.{WORKER}": Figure.single(worker, unit="s/GB"),
        f"{PREFIX}.{stem}.{RATE}": Figure.single(rate, unit="GB/s"),
    }
    return made if ratio is None else {**made, f"{PREFIX}.{stem}.{RATIO}": Figure.single(ratio, unit="x")}


RECORD = Record(
    PREFIX,
    {
        **figures("uint8.100kB.none", 3.0),
        **figures("uint8.10MB.none", 1.0),
        **figures("uint8.10MB.none.workers_4", 1.5),
        **figures("float32.10MB.snappy", 8.0, ratio=0.8),
        **figures("raw_socket.10MB", 0.25),
    },
    details={
        "moved": [
            asdict(Moved("uint8", "100kB", "none")),
            asdict(Moved("uint8", "10MB", "none")),
            asdict(Moved("uint8", "10MB", "none", workers=4)),
            asdict(Moved("float32", "10MB", "snappy")),
        ]
    },
)


def wire(size: float, record: Record = RECORD, dtype: str = "uint8", compression: str = "none") -> WireCost:
    return measured_costs(record).wire(dtype, size, compression)


def test_a_measured_size_gives_the_figures_as_they_were_measured():
    cost = wire(10_000_000)
    assert cost.reader_s_per_gb == Interval.of(RECORD.figures[f"{PREFIX}.uint8.10MB.none.{CLIENT}"])
    assert cost.wire_ratio.value == 1.0
    assert wire(10_000_000, dtype="float32", compression="snappy").wire_ratio.value == 0.8


def test_between_two_sizes_the_cost_goes_straight_over_the_logarithm_with_its_interval():
    middle = wire(1_000_000).reader_s_per_gb
    assert (middle.value, middle.low, middle.high) == pytest.approx((2.0, 1.75, 2.5))


@given(st.floats(min_value=1.0, max_value=1e12))
def test_the_cost_of_any_size_lies_between_the_measured_ones_and_beyond_them_is_the_nearest(size):
    found = wire(size).reader_s_per_gb
    assert 1.0 <= found.value <= 3.0 and found.low <= found.value <= found.high
    if not 100_000 < size < 10_000_000:
        assert found.value == (3.0 if size <= 100_000 else 1.0)


def test_what_was_not_measured_is_refused():
    with pytest.raises(UsageError, match="'stages' holds no transfer"):
        wire(1_000_000, Record("stages"))
    with pytest.raises(UsageError, match="give more than 0"):
        wire(0)


def test_a_record_that_lacks_a_figure_is_refused_with_its_name():
    kept = {name: one for name, one in RECORD.figures.items() if name != f"{PREFIX}.uint8.10MB.none.{RATE}"}
    with pytest.raises(UsageError, match=r"no figure transport\.uint8\.10MB\.none\.gb_per_s"):
        wire(1_000_000, Record(PREFIX, kept, details=RECORD.details))


def test_names_leave_out_what_is_plain_and_sizes_are_whole():
    assert Moved("uint8", "19MB", "none").key == "uint8.19MB.none"
    whole = Moved("float32", "150kB", "snappy", allocator="tcmalloc", workers=2, ranks=2).key
    assert whole == "float32.150kB.snappy.tcmalloc.workers_2.ranks_2"
    assert [Moved("uint8", size).bytes for size in ("150kB", "19MB")] == [150_000, 19_000_000]
    for wrong in ("1.6MB", "0kB", "19", "19mb", "MB", "-1MB"):
        with pytest.raises(UsageError, match="give a whole number of kB or MB"):
            _ = Moved("uint8", wrong, "none").bytes


@pytest.mark.parametrize(("dtype", "compression"), _ASSUMED_WIRE)
def test_the_assumed_wire_is_that_of_one_record_and_holds_what_all_found(repository, dtype, compression):
    names = ("transport-other-day", "transport", "transport-other-machine")
    records = [Record.read(repository / "results" / f"{name}.json").figures for name in names]
    assumed = _ASSUMED_WIRE[dtype, compression]
    for what, cost in {CLIENT: assumed.reader_s_per_gb, WORKER: assumed.server_s_per_gb}.items():
        keys = [f"{PREFIX}.{dtype}.{size}.{compression}.{what}" for size in SIZES]
        found = [figures[key].value for figures in records for key in keys if key in figures]
        assert cost.value == pytest.approx(records[0][f"{PREFIX}.{dtype}.19MB.{compression}.{what}"].value, rel=0.03)
        assert (cost.low, cost.high) == pytest.approx((min(found), max(found)), rel=0.01)


def test_the_assumed_wire_tells_uint8_from_the_rest_and_knows_no_compression():
    uint8, other = (ASSUMED.wire(dtype, 1 << 20, "none") for dtype in ("uint8", "float32"))
    assert uint8 != other
    assert ASSUMED.wire("string", 1 << 20, "none") == other
    assert ASSUMED.compressions == ("none",)
    with pytest.raises(UsageError, match="not known"):
        ASSUMED.wire("uint8", 1 << 20, "snappy")


def test_with_one_batch_in_flight_the_ends_of_a_wire_take_turns():
    cost = WireCost.one_in_flight(Interval(1, 0.5, 2), Interval(3, 1.5, 6))
    assert (cost.gb_per_s.value, cost.gb_per_s.low, cost.gb_per_s.high) == (1 / 4, 1 / 8, 1 / 2)


def test_the_wire_of_a_record_is_what_was_measured():
    def some(name: str, client: float, worker: float, rate: float) -> dict[str, Figure]:
        return {
            f"transport.{name}.client_cpu_s_per_gb": Figure.single(client, unit="s/GB"),
            f"transport.{name}.worker_cpu_s_per_gb": Figure.single(worker, unit="s/GB"),
            f"transport.{name}.gb_per_s": Figure.single(rate, unit="GB/s"),
        }

    ratio = {"transport.float32.19MB.snappy.wire_ratio": Figure.single(0.5, unit="x")}
    record = Record(
        "transport",
        {**some("float32.19MB.none", 1, 2, 3), **some("float32.19MB.snappy", 8, 4, 1), **ratio},
        details={"moved": [asdict(Moved("float32", "19MB", compression)) for compression in ("none", "snappy")]},
    )
    costs = measured_costs(record)
    assert costs.compressions == ("none", "snappy")
    plain, packed = (costs.wire("float32", 19_000_000, name) for name in costs.compressions)
    assert (plain.reader_s_per_gb.value, plain.server_s_per_gb.value, plain.gb_per_s.value) == (1, 2, 3)
    assert (packed.reader_s_per_gb.value, packed.wire_ratio.value, plain.wire_ratio.value) == (8, 0.5, 1)
    assert costs.wire("uint8", 19_000_000, "none") == plain  # uint8 was left out of the record
    with pytest.raises(UsageError, match="unknown compression 'zip'; known: none, snappy"):
        costs.wire("float32", 19_000_000, "zip")
    with pytest.raises(UsageError, match="bench transport"):
        moved = [asdict(Moved("uint8", "19MB", "none", allocator="tcmalloc"))]
        measured_costs(Record("transport", some("uint8.19MB.none.tcmalloc", 1, 2, 3), details={"moved": moved}))
