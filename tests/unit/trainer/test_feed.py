from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tfhet.clock import FakeClock
from tfhet.cluster import JobContext, free_ports
from tfhet.errors import DataError, UsageError
from tfhet.placement import Cut, Pipeline
from tfhet.service import server
from tfhet.service.transport import Transport
from tfhet.source import Raw, Scalar, SyntheticSource, TFRecordSource, write_tfrecords
from tfhet.trainer.feed import Feed

LOCAL = JobContext("job", "local")


@contextlib.contextmanager
def service() -> Iterator[str]:
    ports = free_ports(2)
    dispatcher = server.dispatcher(ports[0])
    worker = server.worker(ports[1], "127.0.0.1", f"127.0.0.1:{ports[0]}")
    try:
        yield f"127.0.0.1:{ports[0]}"
    finally:
        worker._stop()
        dispatcher._stop()


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


def test_an_endless_feed_goes_from_pass_to_pass():
    found = list(itertools.islice(Feed(pipeline(), LOCAL).endless(5), 7))
    assert [d.epoch for d in found] == [5, 5, 5, 6, 6, 6, 7]
    assert sum(len(d.ids) for d in found[:3]) == 10


def test_an_endless_feed_without_examples_ends_with_an_error(monkeypatch):
    monkeypatch.setattr("tfhet.trainer.feed._EMPTY_PASSES", 2)

    class Empty(SyntheticSource):
        def split_sizes(self) -> tuple[int, ...]:
            return (0, 0)

    feed = Feed(Pipeline(Empty(1, 2)), LOCAL)
    assert list(feed.epoch(0)) == []
    with pytest.raises(DataError, match="rank 0 found no example in 2 passes"):
        next(feed.endless(0))


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
        with pytest.raises(DataError, match=rf"corrupt record in {file} at byte {offset}: .*checksum") as found:
            for _ in Feed(Pipeline(source, batch_size=4), job, transport=Transport()).epoch(0):
                pass
    assert (found.value.path, found.value.offset) == (file, offset)


def test_a_record_that_reads_well_the_second_time_is_told_as_such(tmp_path, monkeypatch):
    source, _, _ = corrupted(tmp_path)
    monkeypatch.setattr("tfhet.trainer.feed.corruption", lambda files: None)
    with pytest.raises(DataError, match="a record cannot be read, in one of 4 files"):
        list(Feed(Pipeline(source, batch_size=4), LOCAL).epoch(0))
