"""Rules of a network: the packets that a partition blocks, bandwidth limits and packet loss."""

from __future__ import annotations

import pytest

from tfhet.container.cable import BURST_BYTES, limiting
from tfhet.errors import UsageError


@pytest.mark.parametrize("bits_per_s", [1e4, 2e7, 1e9, 1e11])
def test_burst_and_queue_hold_whole_frames(bits_per_s):
    words = limiting("eth0", bits_per_s).split()
    burst, queue = (int(words[words.index(word) + 1]) for word in ("burst", "limit"))
    assert BURST_BYTES <= burst < queue and queue > 3 * (64 << 10)


@pytest.mark.parametrize("bits_per_s", [0.0, 1e3, 1e12, float("nan"), -1e6])
def test_impossible_bandwidth_is_refused(bits_per_s):
    with pytest.raises(UsageError):
        limiting("eth0", bits_per_s)
