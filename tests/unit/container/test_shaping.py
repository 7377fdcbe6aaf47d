from __future__ import annotations

import pytest

from tfhet.container.cable import BURST_BYTES, PARTS, limiting, losing
from tfhet.errors import UsageError


def test_a_limit_is_changed_in_place_and_lifted_whole():
    assert limiting("eth0", 1e6).startswith("qdisc replace dev eth0 root handle 1: tbf rate 1000000bit ")
    assert limiting("eth0", 1e9).startswith("qdisc replace dev eth0 root handle 1: tbf rate 1000000000bit ")
    assert limiting("eth0", None) == "qdisc delete dev eth0 root"


@pytest.mark.parametrize("bits_per_s", [1e4, 2e7, 1e9, 1e11])
def test_the_burst_has_room_for_what_veth_carries_in_one_piece_and_the_queue_for_some(bits_per_s):
    words = limiting("eth0", bits_per_s).split()
    burst, limit = (int(words[words.index(word) + 1]) for word in ("burst", "limit"))
    assert burst >= BURST_BYTES
    assert limit > 3 * (64 << 10)
    assert burst < limit


def test_losing_packets_replaces_what_was_before():
    before = ["add table netdev t", "delete table netdev t"]
    assert losing("t", "eth0", None) == losing("t", "eth0", 0.0) == before
    some, every = losing("t", "eth0", 0.01), losing("t", "eth0", 1.0)
    assert some[:2] == every[:2] == before
    assert f"numgen random mod {PARTS} < {PARTS // 100} drop" in some
    assert "drop" in every


@pytest.mark.parametrize("bits_per_s", [0.0, 1e3, 1e12, float("nan"), -1e6])
def test_what_no_network_does_is_refused(bits_per_s):
    with pytest.raises(UsageError, match="give"):
        limiting("eth0", bits_per_s)
