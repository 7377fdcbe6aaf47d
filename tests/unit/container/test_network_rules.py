"""Rules of a network: the packets that a partition blocks, bandwidth limits and packet loss."""

from __future__ import annotations

import itertools

import pytest

from tfhet.container.bridge import Partition
from tfhet.container.cable import BURST_BYTES, PARTS, limiting, losing
from tfhet.errors import UsageError


@pytest.mark.parametrize(
    ("direction", "blocked"), [("", {"ac", "ca", "bc", "cb"}), ("in", {"ca", "cb"}), ("out", {"ac", "bc"})]
)
def test_partition_blocks_packets_across_it(direction, blocked):
    cut = Partition(frozenset("ab"), direction)
    assert {a + b for a, b in itertools.permutations("abc", 2) if cut.blocks(a, b)} == blocked


@pytest.mark.parametrize("bits_per_s", [1e4, 2e7, 1e9, 1e11])
def test_burst_and_queue_hold_whole_frames(bits_per_s):
    words = limiting("eth0", bits_per_s).split()
    burst, queue = (int(words[words.index(word) + 1]) for word in ("burst", "limit"))
    assert BURST_BYTES <= burst < queue and queue > 3 * (64 << 10)


@pytest.mark.parametrize("bits_per_s", [0.0, 1e3, 1e12, float("nan"), -1e6])
def test_impossible_bandwidth_is_refused(bits_per_s):
    with pytest.raises(UsageError):
        limiting("eth0", bits_per_s)


@pytest.mark.parametrize(
    ("share", "rule"),
    [(None, None), (0.0, None), (0.01, f"numgen random mod {PARTS} < {PARTS // 100} drop"), (1.0, "drop")],
)
def test_loss_replaces_the_earlier_rule(share, rule):
    lines = losing("t", "eth0", share)
    assert lines[:2] == ["add table netdev t", "delete table netdev t"]
    assert rule in lines if rule else len(lines) == 2
