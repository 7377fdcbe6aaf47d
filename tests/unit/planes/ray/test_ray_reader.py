"""Deadlines of a reading rank, with a fake Ray."""

import sys
import threading
import types

import pytest

from tfhet.clock import SYSTEM
from tfhet.errors import NotReady
from tfhet.planes.feed.source import FeedSource
from tfhet.planes.ray import private
from tfhet.planes.ray.coordinator import EndOfShare, Portion
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


@pytest.mark.parametrize(("answers", "late"), [(2, 2), (0, 0)], ids=["no batch", "no block"])
def test_late_batch_is_named(reader_of, answers, late):
    actor = Actor(*[portion({})] * answers, *([] if answers else [portion(NEVER)]))
    received = reader_of(actor, 0.2).epoch(0)
    assert [next(received).batch for _ in range(answers)] == [{}] * answers
    with pytest.raises(NotReady, match=rf"rank 1: batch {late} of .*make_pictures"):
        next(received)


def test_interrupted_epoch_ends_its_thread(reader_of):
    received = reader_of(Actor(portion({})), 600.0).epoch(0)
    next(received)
    received.close()
    end_s = SYSTEM.monotonic() + 20
    while fetching():
        assert SYSTEM.monotonic() < end_s
        SYSTEM.sleep(0.01)


def test_closed_reader_ends_no_actor(reader_of):
    actor = Actor(portion({}), EndOfShare(0, 1), EndOfShare(0, 1))
    reader = reader_of(actor, 20.0)
    assert len(list(reader.epoch(0))) == 1
    reader.close()
    assert len(list(reader.epoch(1))) == 1
