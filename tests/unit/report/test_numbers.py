"""report/numbers.py: numbers as people read them."""

from __future__ import annotations

import math

import pytest

from tfhet.record import Figure, Spread
from tfhet.report import numbers


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, numbers.MISSING),
        (0, "0"),
        (0.0, "0"),
        (4120.4, "4120"),
        (86.13, "86.1"),
        (0.03124, "0.0312"),
        (95143.2, "95,143"),
        (1437, "1437"),
        (-12345, "-12,345"),
        (1e-9, "1.00e-09"),
        (math.nan, "not a number"),
        (-math.inf, "-∞"),
    ],
)
def test_three_digits_matter_and_nothing_is_a_dash(value: float | None, shown: str) -> None:
    assert numbers.number(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, numbers.MISSING), (0.18, "180 ms"), (4.21, "4.21 s"), (192.4, "3 min 12 s"), (7500.0, "2 h 05 min")],
)
def test_durations_take_the_unit_that_suits_them(seconds: float | None, shown: str) -> None:
    assert numbers.duration(seconds) == shown


def test_sizes_shares_moments_and_spreads_carry_their_units() -> None:
    assert [numbers.size(value) for value in (None, 12.0, 3072.0, 5 << 20, 3 << 30)] == [
        numbers.MISSING,
        "12.0 B",
        "3.00 KiB",
        "5.00 MiB",
        "3.00 GiB",
    ]
    assert numbers.percent(3.14) == "3.1 %"
    assert numbers.percent(None) == numbers.MISSING
    assert numbers.moment(60.0) == "1970-01-01 00:01:00 UTC"
    assert numbers.spread(Spread(86.1, 80.0, 95.0), "ms") == "86.1 ms (p10 80.0, p90 95.0)"
    assert numbers.interval(Figure(1.0, 0.9, 1.1, "x", 3)) == "0.900 to 1.10"


def test_exit_codes_are_in_words_where_a_number_would_mislead() -> None:
    assert [numbers.exit_code(code) for code in (0, 3, -9, None)] == ["0", "3", "signal 9", "not seen to end"]
