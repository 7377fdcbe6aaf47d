from __future__ import annotations

import pytest

from tfhet.container.cable import BURST_BYTES, PARTS, Shape, losing
from tfhet.errors import UsageError

NONE = Shape()


def test_what_was_not_limited_and_is_not_needs_no_command():
    assert NONE.lines("eth0", NONE) == []


def test_a_limit_is_changed_in_place_and_taken_away_whole():
    slow, fast = Shape(1e6), Shape(1e9)
    (line,) = slow.lines("eth0", NONE)
    assert line.startswith("qdisc replace dev eth0 root handle 2: tbf rate 1000000bit ")
    (line,) = fast.lines("eth0", slow)
    assert line.startswith("qdisc replace dev eth0 root handle 2: tbf rate 1000000000bit ")
    assert NONE.lines("eth0", fast) == ["qdisc delete dev eth0 root"]


def test_a_delay_by_netem_stands_before_the_limit():
    both = Shape(1e6, 0.05)
    delay, limit = both.lines("eth0", NONE)
    assert delay.startswith("qdisc replace dev eth0 root handle 1: netem delay 50000us ")
    assert limit.startswith("qdisc replace dev eth0 parent 1:1 handle 2: tbf rate 1000000bit ")
    assert Shape(1e6).lines("eth0", both)[0] == "qdisc delete dev eth0 root"


@pytest.mark.parametrize("bits_per_s", [1e4, 2e7, 1e9, 1e11])
def test_the_burst_has_room_for_what_veth_carries_in_one_piece_and_the_queue_for_some(bits_per_s):
    words = Shape(bits_per_s).lines("eth0", NONE)[0].split()
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


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Shape(0.0),
        lambda: Shape(1e3),
        lambda: Shape(1e12),
        lambda: Shape(float("nan")),
        lambda: Shape(-1e6),
    ],
)
def test_what_no_network_does_is_refused(wrong):
    with pytest.raises(UsageError, match="give"):
        wrong()
