"""The deadlines of a rank that reads, against a cluster of Ray that is only played."""

import sys
import threading
import types

import pytest

from tfhet.clock import SYSTEM
from tfhet.errors import NotReady
from tfhet.planes.feed.source import FeedSource
from tfhet.planes.ray import private
from tfhet.planes.ray.coordinator import Over, Portion
from tfhet.planes.ray.reader import RayReader
from tfhet.planes.ray.settings import Order
from tfhet.strategies import JobContext

NEVER = object()
"""An answer that does not come."""


class Late(Exception):
    pass


class Actor:
    """Answers with what it was given, batch after batch, and then with NEVER."""

    def __init__(self, *answers):
        self.answers = answers
        self.batch = self.begin = types.SimpleNamespace(remote=self._answer)

    def _answer(self, number, rank, index):
        return self.answers[index] if index < len(self.answers) else NEVER


def got(refs, timeout):
    if refs is NEVER or (isinstance(refs, list) and NEVER in refs):
        SYSTEM.sleep(timeout)
        raise Late
    return refs


def waited(refs, timeout):
    if NEVER in refs:
        SYSTEM.sleep(timeout)
        return [], refs
    return refs, []


@pytest.fixture
def reader_of(monkeypatch):
    played = types.SimpleNamespace(get=got, wait=waited, exceptions=types.SimpleNamespace(GetTimeoutError=Late))
    monkeypatch.setitem(sys.modules, "ray", played)
    monkeypatch.setattr(private, "columns", lambda block, first, end: block)

    def make(actor, limit_s):
        source = FeedSource("pictures", "pictures.py", "make_pictures")
        job = JobContext("job", "heterogeneous", rank=1, size=2)
        reader = RayReader(Order("10.0.0.1:6379", {}), source, job, make_limit_s=limit_s)
        reader._actor = actor
        return reader

    return make


def portion(block) -> Portion:
    return Portion(((block, 0, 1),), None)


def fetching() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ray-fetch"]


def test_a_batch_that_does_not_come_is_named(reader_of):
    reader = reader_of(Actor(portion({}), portion({})), 0.2)
    received = reader.epoch(0)
    assert [next(received).batch for _ in range(2)] == [{}, {}]
    said = r"rank 1: batch 2 of .*make_pictures.* did not come within 0.2 s \(make_limit_s\): its tasks or another rank"
    with pytest.raises(NotReady, match=said):
        next(received)


def test_so_is_one_whose_block_does_not_come(reader_of):
    with pytest.raises(NotReady, match="rank 1: batch 0 .* did not come within 0.2 s"):
        next(reader_of(Actor(portion(NEVER)), 0.2).epoch(0))


def test_an_epoch_that_is_left_early_ends_its_thread_long_before_the_limit(reader_of):
    received = reader_of(Actor(portion({})), 600.0).epoch(0)
    next(received)
    received.close()
    end_s = SYSTEM.monotonic() + 20
    while fetching():
        assert SYSTEM.monotonic() < end_s, "the thread goes on"
        SYSTEM.sleep(0.01)


def test_an_epoch_ends_and_a_reader_that_is_closed_ends_no_actor(reader_of):
    actor = Actor(portion({}), Over(0, 1), Over(0, 1))
    reader = reader_of(actor, 20.0)
    assert len(list(reader.epoch(0))) == 1
    reader.close()
    assert len(list(reader.epoch(1))) == 1
