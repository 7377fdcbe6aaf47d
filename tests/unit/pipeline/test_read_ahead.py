"""Read-ahead: batches are loaded before they are made, together, within a limit of memory."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tfhet.errors import DataError
from tfhet.pipeline import read_ahead
from tfhet.pipeline.read_ahead import ReadAhead

FILE = bytes(1000)


class Source:
    """Remote files of 1000 bytes."""

    is_remote = True

    def __init__(self, bad: int = -1) -> None:
        self.calls: list[list[int]] = []
        self.bad, self.lock, self.is_called = bad, threading.Lock(), threading.Semaphore(0)

    def load(self, ids: np.ndarray) -> dict:
        with self.lock:
            self.calls.append(ids.tolist())
        self.is_called.release()
        if self.bad in ids:
            raise DataError(f"example {self.bad} is bad")
        return {"image": [FILE] * len(ids), "label": ids}


def batches(count: int = 40) -> list[np.ndarray]:
    return [np.arange(at * 8, at * 8 + 8) for at in range(count)]


def test_batches_are_loaded_in_groups():
    source = Source()
    ahead, order = ReadAhead(source), batches()
    ahead.follow(iter(order))
    for _ in range(read_ahead.GROUPS):
        assert source.is_called.acquire(timeout=30)
    for ids in order:
        found = ahead.load(ids)
        assert found["label"].tolist() == ids.tolist() and found["image"] == [FILE] * 8
    assert sorted(sum(source.calls, [])) == list(range(320))
    assert max(map(len, source.calls)) > 8 * 10


@pytest.mark.parametrize("limit", [1, 100_000])
def test_memory_is_limited(monkeypatch, limit):
    monkeypatch.setattr(read_ahead, "MEMORY_BYTES", limit)
    source = Source()
    ahead, order = ReadAhead(source), batches()
    ahead.follow(iter(order))
    for at, ids in enumerate(order):
        ahead.load(ids)
        held = len({one for call in source.calls for one in call}) - 8 * (at + 1)
        assert held <= max(read_ahead.GROUPS * 8, limit // 1000)


def test_bad_example_is_an_error_of_its_batch():
    ahead, order = ReadAhead(Source(bad=100)), batches()
    ahead.follow(iter(order))
    for ids in order:
        if 100 in ids:
            with pytest.raises(DataError, match="example 100"):
                ahead.load(ids)
        else:
            assert ahead.load(ids)["label"].tolist() == ids.tolist()


def test_other_batches_replace_announced_ones():
    source = Source()
    ahead, order = ReadAhead(source), batches()
    ahead.follow(iter(order))
    ahead.load(order[0])
    ahead.follow(iter(order[30:]))
    for ids in order[30:] + order[:2]:
        assert ahead.load(ids)["label"].tolist() == ids.tolist()


def test_repeated_batches_are_loaded_each_time():
    ahead, order = ReadAhead(Source()), batches(3) * 20
    ahead.follow(iter(order))
    for ids in order:
        assert ahead.load(ids)["label"].tolist() == ids.tolist()
