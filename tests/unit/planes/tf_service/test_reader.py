from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfhet.clock import SYSTEM, FakeClock
from tfhet.cluster import JobContext, free_ports
from tfhet.errors import DataError, UsageError
from tfhet.placement import Cut, Pipeline, Rest
from tfhet.planes.tf_service import server
from tfhet.planes.tf_service.engine import whole_engine
from tfhet.planes.tf_service.transport import Transport
from tfhet.source import Raw, Scalar, SyntheticSource, TFRecordSource, write_tfrecords
from tfhet.trainer import Solo
from tfhet.planes.tf_service.reader import Delivery, Feed
from tfhet.trainer.loop import Loop
from tfhet.trainer.step import EmulatedAccelerator

LOCAL = JobContext("job", "local")
ENGINE = whole_engine()


@contextlib.contextmanager
def service() -> Iterator[str]:
    ports = free_ports(2)
    dispatcher = server.dispatcher(ENGINE, ports[0])
    worker = server.worker(ENGINE, ports[1], "127.0.0.1", f"127.0.0.1:{ports[0]}")
    try:
        yield f"127.0.0.1:{ports[0]}"
    finally:
        worker.stop()
        dispatcher.stop()


def pipeline(stages: str = "rescale()", examples: int = 10, splits: int = 2) -> Pipeline:
    return Pipeline(SyntheticSource(examples, splits, (4, 4, 1)), stages, batch_size=4)


def corrupted(folder: Path) -> tuple[TFRecordSource, str, int]:
    """Four files of eight records; a bit of the sixth record of the third is wrong. -> source, file, byte."""
    features = {"image": Raw((4, 4, 1)), "label": Scalar()}
    image = np.zeros((4, 4, 1), np.uint8)
    write_tfrecords(folder / "set", ({"image": image, "label": i} for i in range(32)), 4, features)
    source = TFRecordSource.from_directory(folder / "set")
    file = Path(source.files[2])
    data = bytearray(file.read_bytes())
    length = len(data) // 8
    data[5 * length + 20] ^= 1
    file.write_bytes(data)
    return source, str(file), 5 * length


def test_the_first_batch_of_all_is_told_once_with_how_long_it_took():
    clock, told = FakeClock(), []
    feed = Feed(pipeline(), LOCAL, clock=clock, on_first_batch=told.append)
    for epoch in range(2):
        for _ in feed.epoch(epoch):
            clock.sleep(1.0)
    assert told == [feed.first_batch_s] == [0.0]


def test_deliveries_are_batches_with_ids_epoch_and_the_time_they_took():
    clock = FakeClock()
    feed = Feed(pipeline(), LOCAL, clock=clock)
    assert feed.first_batch_s is None
    found = list(feed.epoch(3))
    assert sorted(i for d in found for i in d.ids.tolist()) == sorted(
        [*range(5), *(2**32 + position for position in range(5))]
    )
    assert all(d.ids.dtype == np.int64 and d.epoch == 3 and d.wait_s == 0 for d in found)
    assert found[0].images.shape == (4, 4, 4, 1) and found[0].labels.shape == (4,)
    assert feed.first_batch_s == 0


def test_the_wait_is_what_passes_on_the_clock_before_a_batch():
    class Ticking(FakeClock):
        def monotonic(self) -> float:
            self.sleep(1.0)
            return super().monotonic()

    feed = Feed(pipeline(), LOCAL, clock=Ticking())
    assert [d.wait_s for d in feed.epoch(0)] == [1.0] * 3
    assert feed.first_batch_s == 2.0
    list(feed.epoch(1))
    assert feed.first_batch_s == 2.0


def test_the_cut_is_the_smallest_unless_given_and_must_exist():
    assert Feed(pipeline("dilate(3); rescale()"), LOCAL).cut == Cut(1)
    assert Feed(pipeline("dilate(3); rescale()"), LOCAL, cut=Cut(2)).cut == Cut(2)
    with pytest.raises(UsageError, match="between 0 and 2"):
        Feed(pipeline("dilate(3); rescale()"), LOCAL, cut=Cut(3))


@pytest.mark.parametrize("served", [False, True])
def test_a_corrupt_record_ends_in_an_error_that_names_file_and_byte(tmp_path, served):
    source, file, offset = corrupted(tmp_path)
    source.check()  # looks at the framing only, and that is whole
    with contextlib.ExitStack() as stack:
        job = LOCAL
        if served:
            job = JobContext("job", "heterogeneous", dispatcher=stack.enter_context(service()), workers=1)
        with pytest.raises(DataError, match=rf"bad record in {file} at byte {offset}: .*checksum") as found:
            feed = Feed(Pipeline(source, batch_size=4), job, transport=Transport())
            feed.agree()
            feed.offer(0)
            list(feed.epoch(0))
    assert (found.value.path, found.value.offset) == (file, offset)


def test_a_record_that_reads_well_the_second_time_is_told_as_such(tmp_path, monkeypatch):
    source, _, _ = corrupted(tmp_path)
    monkeypatch.setattr("tfhet.planes.tf_service.reader.find", lambda *given: None)
    with pytest.raises(DataError, match="a record cannot be read, and it was not found in 60 s"):
        list(Feed(Pipeline(source, batch_size=4), LOCAL).epoch(0))


# A dispatcher that begins anew


class Renewed:
    """A dispatcher and two workers in this process; `renew` puts a dispatcher without memory in its place."""

    def __init__(self) -> None:
        self.ports = free_ports(3)
        self.dispatcher = server.dispatcher(ENGINE, self.ports[0])
        self.address = f"127.0.0.1:{self.ports[0]}"
        self.workers = [server.worker(ENGINE, port, "127.0.0.1", self.address) for port in self.ports[1:]]

    def renew(self) -> None:
        """Returns when the workers have come back, and dropped what they did for the old one."""
        self.dispatcher.stop()
        self.dispatcher = None  # its port is free when nobody holds it any more
        self.dispatcher = server.dispatcher(ENGINE, self.ports[0])
        deadline = SYSTEM.monotonic() + 30
        while self.dispatcher.num_workers() < 2 or any(worker.num_tasks() for worker in self.workers):
            assert SYSTEM.monotonic() < deadline, "the workers did not come back"
            SYSTEM.sleep(0.02)

    def job(self, rank: int = 0, size: int = 1) -> JobContext:
        return JobContext("job", "heterogeneous", rank, size, rank, size, dispatcher=self.address, workers=2)

    def stop(self) -> None:
        gc.collect()
        for worker in self.workers:
            worker.stop()
        self.dispatcher.stop()


@pytest.fixture
def renewed() -> Iterator[Renewed]:
    service = Renewed()
    yield service
    service.stop()


def test_a_reader_is_cut_off_by_a_fresh_dispatcher_and_what_is_left_comes_exactly_once(renewed):
    feed, cut_off, given = Feed(pipeline("rescale()", 400, 40), renewed.job()), [], []
    whole = feed.epoch

    def epoch(*part: Any) -> Iterator[Delivery]:
        given.append(0)
        for count, delivery in enumerate(whole(*part)):
            if count == 5 and len(given) < 3:
                renewed.renew()
            given[-1] += len(delivery.ids)
            yield delivery
        cut_off.append(feed.was_cut_off)

    feed.epoch = epoch
    loop = Loop(feed, EmulatedAccelerator(0.0, Solo()), Solo())
    loop.agree()
    result = loop.epoch(0)
    assert (result["once"], result["missing"], result["repeated"]) == (400, 0, 0)
    assert sum(given) == 400 and result["rereads"] == len(given) - 1
    # A worker that was asking the dispatcher for a split goes on asking, and takes one from the fresh one for work that
    # it has given up (TF 2.15.1 and 2.21): at most one each, which come in a last part.
    assert cut_off in ([True, True, False], [True, True, False, False]), feed.failure
    assert sum(given[3:]) <= 2 * 10
    result = loop.epoch(1)
    assert (result["once"], result["missing"], result["repeated"], result["rereads"]) == (400, 0, 0, 0)


def test_a_dispatcher_without_the_mark_is_not_read_from(renewed):
    feed = Feed(pipeline(), renewed.job())
    feed.agree()
    renewed.renew()
    feed.offer(0)
    assert list(feed.epoch(0)) == []
    assert feed.was_cut_off
    feed.agree()
    feed.offer(0, None, 1)
    assert sum(len(delivery.ids) for delivery in feed.epoch(0, None, 1)) == 10
    assert not feed.was_cut_off


def test_a_feed_that_goes_local_needs_no_dispatcher(renewed):
    feed = Feed(pipeline(), renewed.job(1, 2))
    assert feed.is_served
    feed.go_local()
    assert not feed.is_served
    feed.agree()
    feed.offer(0)
    rest = Rest.after(np.arange(2**32, 2**32 + 2), (5, 5), 2)
    # The second of two ranks: of the splits 0 and 1 in the order of the epoch it has the second.
    found = [int(i) for rank in (0, 1) for d in local(renewed, rank).epoch(0, rest) for i in d.ids]
    assert sorted(found) == [*range(5), *(2**32 + position for position in (2, 3, 4))]


def local(service: Renewed, rank: int) -> Feed:
    feed = Feed(pipeline(), service.job(rank, 2))
    feed.go_local()
    return feed
