from __future__ import annotations

import pytest

from tfhet.control.lease import Standstill

LEASE_S = 4.0


@pytest.mark.parametrize(
    ("stood_still_s", "later_s", "is_recent"),
    [(0.0, 0.0, False), (3.5, 0.0, False), (3.7, 0.0, True), (11.0, 7.9, True), (11.0, 8.1, False)],
)
def test_standstill_of_almost_a_lease_counts_for_two(stood_still_s, later_s, is_recent):
    standstill = Standstill(LEASE_S, 100.0)
    standstill.observe(120.0, stood_still_s)
    standstill.observe(120.0 + later_s, 0.0)
    assert standstill.is_recent(120.0 + later_s) is is_recent


def test_standstill_is_found_before_the_next_beat():
    standstill = Standstill(LEASE_S, 100.0)
    assert not standstill.is_unnoticed(103.5)
    assert standstill.is_unnoticed(111.0)
    standstill.observe(111.0, 10.8)
    assert not standstill.is_unnoticed(111.0)
    assert standstill.is_recent(111.0)
