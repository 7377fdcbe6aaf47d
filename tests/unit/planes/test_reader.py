from __future__ import annotations

import pytest
from fake_clock import FakeClock

from tfhet.errors import DataError, UsageError
from tfhet.pipeline import Cut, Pipeline
from tfhet.planes import Reader
from tfhet.source import SyntheticSource
from tfhet.strategies import JobContext

LOCAL = JobContext("job", "local")


def pipeline(stages: str = "rescale()", examples: int = 10, splits: int = 2) -> Pipeline:
    return Pipeline(SyntheticSource(examples, splits, (4, 4, 1)), stages, batch_size=4)


def test_corrupt_record_is_named(corrupted):
    source, file, offset = corrupted
    source.check()  # checks the framing only
    with pytest.raises(DataError) as found:
        list(Reader(Pipeline(source, batch_size=4), LOCAL).epoch(0))
    assert (found.value.path, found.value.offset) == (file, offset)


def test_first_batch_is_reported_once():
    clock, reported = FakeClock(), []
    reader = Reader(pipeline(), LOCAL, clock=clock, on_first_batch=reported.append)
    for epoch in range(2):
        for _ in reader.epoch(epoch):
            clock.sleep(1.0)
    assert reported == [reader.first_batch_s] == [0.0]


def test_wait_is_measured_before_each_batch():
    class Ticking(FakeClock):
        def monotonic(self) -> float:
            self.sleep(1.0)
            return super().monotonic()

    reader = Reader(pipeline(), LOCAL, clock=Ticking())
    assert [d.wait_s for d in reader.epoch(0)] == [1.0] * 3
    assert reader.first_batch_s == 2.0
    list(reader.epoch(1))
    assert reader.first_batch_s == 2.0


def test_cut_is_smallest_by_default_and_exists():
    assert Reader(pipeline("dilate(3); rescale()"), LOCAL).cut == Cut(1)
    assert Reader(pipeline("dilate(3); rescale()"), LOCAL, cut=Cut(2)).cut == Cut(2)
    with pytest.raises(UsageError):
        Reader(pipeline("dilate(3); rescale()"), LOCAL, cut=Cut(3))


def test_record_that_is_not_found_again(corrupted, monkeypatch):
    source, _, _ = corrupted
    monkeypatch.setattr("tfhet.planes.reader.find", lambda *given: None)
    with pytest.raises(DataError, match="not found"):
        list(Reader(Pipeline(source, batch_size=4), LOCAL).epoch(0))
