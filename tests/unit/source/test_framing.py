from __future__ import annotations

import gzip

import numpy as np
import pytest
import tensorflow as tf
from damaged import flip

from tfhet import native
from tfhet.errors import DataError, UsageError
from tfhet.source.framing import ENDS, FOOTER_BYTES, HEADER_BYTES, Frame, fault, offsets, reach, walk

LENGTHS = [10, 0, 300, 7, 5000]
OFFSETS = np.cumsum([0, *(HEADER_BYTES + length + FOOTER_BYTES for length in LENGTHS)]).tolist()


@pytest.fixture
def file(tmp_path) -> str:
    path = str(tmp_path / "a.tfrecord")
    rng = np.random.default_rng(0)
    with tf.io.TFRecordWriter(path) as writer:
        for length in LENGTHS:
            writer.write(rng.bytes(length))
    return path


def first_fault(file: str) -> tuple[int, str] | None:
    """Byte and reason of the first broken record."""
    found = ((offset, fault(file, offset)) for offset in offsets(file))
    return next(((offset, reason) for offset, reason in found if reason not in (None, ENDS)), None)


def test_walk_finds_every_record(file):
    assert list(walk(file)) == [Frame(offset, length) for offset, length in zip(OFFSETS, LENGTHS, strict=False)]


def test_sound_and_empty_files_have_no_fault(file, tmp_path):
    empty = tmp_path / "empty.tfrecord"
    empty.touch()
    assert first_fault(file) is first_fault(str(empty)) is None
    assert list(walk(str(empty))) == []


def test_other_file_systems_are_read_alike(file):
    assert list(walk(f"file://{file}")) == list(walk(file))
    flip(file, OFFSETS[2] + HEADER_BYTES)
    assert first_fault(f"file://{file}") == first_fault(file) is not None
    with pytest.raises(UsageError, match="no such TFRecord file"):
        list(walk(f"file://{file}.absent"))


@pytest.mark.parametrize("record", range(len(LENGTHS)))
@pytest.mark.parametrize("place", ["length", "checksum of the length", "first of the data", "checksum of the data"])
def test_wrong_bit_is_found_in_its_record(file, record, place):
    inside = {
        "length": 1,
        "checksum of the length": 9,
        "first of the data": HEADER_BYTES,
        "checksum of the data": HEADER_BYTES + LENGTHS[record],
    }[place]
    flip(file, OFFSETS[record] + inside)
    offset, reason = first_fault(file)
    assert offset == OFFSETS[record]
    in_length = place in ("length", "checksum of the length")
    assert ("length's checksum" if in_length else "data's checksum") in reason
    if in_length:
        with pytest.raises(DataError, match=f"byte {OFFSETS[record]}: ") as caught:
            list(walk(file))
        assert (caught.value.path, caught.value.offset) == (file, OFFSETS[record])
    else:
        assert len(list(walk(file))) == len(LENGTHS)  # the cheap check does not read the data


@pytest.mark.parametrize("kept", [OFFSETS[1] - 1, OFFSETS[2] + 5, OFFSETS[4] + HEADER_BYTES, OFFSETS[5] - 4])
def test_truncated_file_is_found_at_its_record(file, kept):
    with open(file, "r+b") as stream:
        stream.truncate(kept)
    start = max(offset for offset in OFFSETS if offset < kept)
    offset, reason = first_fault(file)
    assert offset == start
    assert reason.startswith("the file ends inside")


def test_tensorflow_stops_at_the_same_record(file):
    flip(file, OFFSETS[2] + HEADER_BYTES + 3)
    read = 0
    with pytest.raises(tf.errors.DataLossError):
        for _ in tf.data.TFRecordDataset(file):
            read += 1
    assert OFFSETS.index(first_fault(file)[0]) == read == 2


def test_compressed_missing_and_unreadable_files_differ(tmp_path):
    packed = tmp_path / "a.tfrecord.gz"
    packed.write_bytes(gzip.compress(b"records" * 10))
    with pytest.raises(DataError, match="TFRecord file.*compressed"):
        list(walk(str(packed)))
    with pytest.raises(UsageError, match="no such TFRecord file"):
        list(walk(str(tmp_path / "absent")))
    with pytest.raises(DataError, match="cannot open"):
        list(walk(str(tmp_path)))
    packed.write_bytes(b"what is this")
    assert "TFRecord file?" in fault(str(packed), 0)


@pytest.mark.parametrize("compiled", [True, False])
def test_reachable_records_are_counted(tmp_path, monkeypatch, compiled: bool):
    if not compiled:
        monkeypatch.setattr("tfhet.native.ops", lambda name: None)
    elif not native.available("records"):
        pytest.skip("no compiler")
    file = str(tmp_path / "some.tfrecord")
    with tf.io.TFRecordWriter(file) as writer:
        for size in (0, 5, 9000, 4084, 1, 70000, 3):
            writer.write(bytes(size))
    ends = offsets(file)[1:]
    content = (tmp_path / "some.tfrecord").read_bytes()
    assert reach([file])[0] == (7, len(content), True) == (len(ends), ends[-1], True)
    assert [reach([file], most)[0][:2] for most in range(3)] == [(0, 0), (1, ends[0]), (2, ends[1])]
    for cut in (0, 3, 12, 16, ends[1] + 4, ends[2] - 1, ends[5] + 14):
        (tmp_path / "some.tfrecord").write_bytes(content[:cut])
        whole = [end for end in ends if end <= cut]
        assert reach([file])[0] == (len(whole), whole[-1] if whole else 0, cut in (0, 16))
    for place in (0, 9):  # length and checksum of the third record
        bad = bytearray(content)
        bad[ends[1] + place] ^= 1
        (tmp_path / "some.tfrecord").write_bytes(bad)
        assert reach([file])[0] == (2, ends[1], False)
    with pytest.raises(UsageError, match="no such TFRecord file"):
        reach([file, str(tmp_path / "absent")])
