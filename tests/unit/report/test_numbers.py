"""report/numbers.py: numbers as people read them."""

from __future__ import annotations

import math

import pytest

from tfhet.record import Spread
from tfhet.report import numbers

DASH = numbers.MISSING


@pytest.mark.parametrize(
    ("write", "value", "shown"),
    [
        (numbers.number, None, DASH),
        (numbers.number, 0.0, "0"),
        (numbers.number, 86.13, "86.1"),
        (numbers.number, 0.03124, "0.0312"),
        (numbers.number, 95143.2, "95,143"),
        (numbers.number, 1e-9, "1.00e-09"),
        (numbers.number, math.nan, "not a number"),
        (numbers.number, -math.inf, "-∞"),
        (numbers.duration, 0.18, "180 ms"),
        (numbers.duration, 4.21, "4.21 s"),
        (numbers.duration, 192.4, "3 min 12 s"),
        (numbers.duration, 7500.0, "2 h 05 min"),
        (numbers.size, 3072.0, "3.00 KiB"),
        (numbers.size, 3 << 30, "3.00 GiB"),
        (numbers.percent, 3.14, "3.1 %"),
        (numbers.moment, 60.0, "1970-01-01 00:01:00 UTC"),
        (numbers.moment, 1e300, "1.00e+300 s"),
        (numbers.exit_code, -9, "signal 9"),
        (numbers.exit_code, None, "not seen to end"),
    ],
)
def test_numbers_are_short_and_have_units(write, value: float | None, shown: str) -> None:
    assert write(value) == shown


def test_spread_shows_median_and_percentiles() -> None:
    assert numbers.spread(Spread(86.1, 80.0, 95.0), "ms") == "86.1 ms (p10 80.0, p90 95.0)"
