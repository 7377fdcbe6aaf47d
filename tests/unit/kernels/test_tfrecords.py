"""TFRecords and features of examples that the core reads, against TensorFlow's readers; broken records."""

from __future__ import annotations

import gc
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfhet import kernels
from tfhet.errors import DataError
from tfhet.source import framing
from tfhet.source.encoding import checksum

SIZES = (0, 1, 2, 7, 8, 16, 511, 1535, 1536, 1537, 4084, 4096, 9000, 70_000)
"""Lengths at which the checksum and the reader of headers have their corners."""
FIELDS = [
    *(("image", "raw", 6), ("label", "int64", 2), ("weight", "float", 3)),
    *(("file", "bytes", 1), ("words", "bytes", 3)),
]


@pytest.fixture(scope="module")
def contents() -> list[bytes]:
    return [np.random.default_rng(size).bytes(size) for size in SIZES]


@pytest.fixture
def shard(tmp_path: Path, contents: list[bytes]) -> str:
    """A TFRecord file of the contents, written by TensorFlow."""
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for content in contents:
            writer.write(content)
    return path


def records_of(path: str, threads: int = 1) -> list[bytes]:
    offsets, _ = kernels.record_offsets(path)
    return list(kernels.read_files([path] * (len(offsets) - 1), offsets[:-1], framed=True, threads=threads))


def example(index: int) -> bytes:
    def listed(kind: str, values: Any) -> tf.train.Feature:
        lists = {"bytes": tf.train.BytesList, "int64": tf.train.Int64List, "float": tf.train.FloatList}
        return tf.train.Feature(**{f"{kind}_list": lists[kind](value=values)})

    features = {
        "image": listed("bytes", [bytes([index] * 6)]),
        "label": listed("int64", [index, -index]),
        "weight": listed("float", [index / 3, np.inf, -0.0]),
        "file": listed("bytes", [b"\0\xff" * index]),
        "words": listed("bytes", [b"", b"word", b"%d" % index]),
        "unknown": listed("int64", [1, 2, 3]),
    }
    made: bytes = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    return made


# --- records


@pytest.mark.parametrize("threads", [1, 3])
def test_records_equal_tensorflow(shard, contents, threads):
    assert records_of(shard, threads) == list(tf.data.TFRecordDataset(shard).as_numpy_iterator()) == contents


def test_offsets_equal_the_walk(shard):
    offsets, reason = kernels.record_offsets(shard)
    assert offsets.dtype == np.int64 and reason == ""
    assert offsets.tolist() == framing.offsets(shard)


def test_record_lengths_may_be_passed(shard, contents):
    offsets, _ = kernels.record_offsets(shard)
    names, lengths = [shard] * len(contents), np.diff(offsets)
    assert list(kernels.read_files(names, offsets[:-1], lengths, framed=True)) == contents
    lengths[5] -= 1
    with pytest.raises(DataError, match=f"the record has 32 bytes, not 31 at byte {offsets[5]}"):
        kernels.read_files(names, offsets[:-1], lengths, framed=True)


def test_empty_file_has_no_records(tmp_path):
    (tmp_path / "a").touch()
    offsets, reason = kernels.record_offsets(tmp_path / "a")
    assert (offsets.tolist(), reason) == ([0], "")
    with pytest.raises(DataError, match="ends before the record at byte 0"):
        kernels.read_files([tmp_path / "a"], framed=True)
    with pytest.raises(DataError, match="absent: No such file"):
        kernels.record_offsets(tmp_path / "absent")


def test_broken_file_equals_the_walk_in_python(shard, tmp_path):
    """Every kind of damage to lengths: the same records, and the same reason."""
    whole, path = Path(shard).read_bytes(), str(tmp_path / "broken")
    offsets = framing.offsets(shard)
    cuts = {whole[:end] for at in offsets[:-1] for end in (at + 1, at + 11, at + 12, at + 15, at + 16)}
    flips = set()
    for at in offsets[:-1]:
        for place in (at, at + 7, at + 8, at + 11):
            flips.add(whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :])
    length = struct.pack("<Q", 2**62)
    huge = length + struct.pack("<I", checksum(length))
    for content in (*sorted(cuts | flips), huge, whole[: offsets[3]] + huge + bytes(20)):
        Path(path).write_bytes(content)
        ours, reason = kernels.record_offsets(path)
        expected = framing.offsets(path)
        assert ours.tolist() == expected
        assert reason == (framing.fault(path, expected[-1]) if expected[-1] < len(content) else "")


def test_every_flipped_bit_and_cut_is_found(tmp_path, contents):
    path = tmp_path / "a"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for content in contents[2:5]:
            writer.write(content)
    whole, (offsets, _) = path.read_bytes(), kernels.record_offsets(path)
    names, lengths = [str(path)] * 3, np.diff(offsets)
    for at in range(len(whole)):
        bad = bytearray(whole)
        bad[at] ^= 16
        path.write_bytes(bad)
        broken = offsets[np.searchsorted(offsets, at, "right") - 1]
        for given in (None, lengths):
            with pytest.raises(
                DataError, match=rf"/a: (wrong checksum of the (length|record)) at byte {broken}$"
            ) as failure:
                kernels.read_files(names, offsets[:-1], given, framed=True, threads=2)
            assert (failure.value.path, failure.value.offset) == (str(path), broken)
        path.write_bytes(whole[:at])
        for given in (None, lengths):
            with pytest.raises(DataError, match=rf"the file ends (inside|before) the record at byte {broken}$"):
                kernels.read_files(names, offsets[:-1], given, framed=True)


@pytest.mark.parametrize("length", [2**62 - 1, 2**62, 2**63, 2**64 - 1])
def test_impossible_lengths_are_refused(tmp_path, length):
    header = struct.pack("<Q", length)
    (tmp_path / "a").write_bytes(header + struct.pack("<I", checksum(header)) + bytes(40))
    with pytest.raises(DataError, match=r"(impossible length of|ends inside) the record at byte 0"):
        kernels.read_files([tmp_path / "a"], framed=True)
    assert kernels.record_offsets(tmp_path / "a")[0].tolist() == [0]


# --- examples


def test_features_equal_tensorflow():
    records = [example(index) for index in range(30)]
    image, label, weight, file, words = kernels.parse_examples(records, FIELDS)
    theirs = tf.io.parse_example(
        records,
        {
            "image": tf.io.FixedLenFeature((), tf.string),
            "label": tf.io.FixedLenFeature((2,), tf.int64),
            "weight": tf.io.FixedLenFeature((3,), tf.float32),
            "file": tf.io.FixedLenFeature((), tf.string),
            "words": tf.io.FixedLenFeature((3,), tf.string),
        },
    )
    assert [bytes(row) for row in image] == theirs["image"].numpy().tolist() and image.dtype == np.uint8
    for ours, name in ((label, "label"), (weight, "weight")):
        np.testing.assert_array_equal(ours, theirs[name])
        assert ours.dtype == theirs[name].numpy().dtype
    assert list(file) == theirs["file"].numpy().tolist()
    assert list(words) == theirs["words"].numpy().reshape(-1).tolist()


def test_features_of_read_records(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for index in range(5):
            writer.write(example(index))
    offsets, _ = kernels.record_offsets(path)
    files, label = kernels.parse_examples(
        kernels.read_files([path] * 5, offsets[:-1], framed=True), [("file", "bytes", 1), ("label", "int64", 2)]
    )
    gc.collect()
    assert list(files) == [b"\0\xff" * index for index in range(5)]
    assert label.tolist() == [[index, -index] for index in range(5)]


@pytest.mark.parametrize(
    ("field", "named"),
    [
        (("absent", "int64", 1), "feature absent of example 2 of the block is missing"),
        (("image", "raw", 4), "feature image of example 2 .* 6 bytes, not 4"),
        (("label", "float", 2), "feature label of example 2 .* no list of float"),
        (("weight", "float", 2), "feature weight of example 2 .* 3 values, not 2"),
        (("words", "bytes", 4), "feature words of example 2 .* 3 values, not 4"),
        (None, r"example 2 of the block is no tf\.train\.Example"),
    ],
)
def test_misfitting_record_is_named(field, named):
    fitting = tf.train.Example()
    if field:
        name, kind, size = field
        lists = {"raw": "bytes_list", "bytes": "bytes_list", "int64": "int64_list", "float": "float_list"}
        values: Any = {"raw": [bytes(size)], "bytes": [b""] * size}.get(kind, [0] * size)
        getattr(fitting.features.feature[name], lists[kind]).value.extend(values)
    good, bad = (fitting.SerializeToString(), example(1)) if field else (example(0), b"\xff\xff")
    with pytest.raises(DataError, match=named):
        kernels.parse_examples([good, good, bad, good], [field] if field else FIELDS)


def test_byte_strings_keep_the_records():
    (kept,) = kernels.parse_examples([example(9)], [("file", "bytes", 1)])
    gc.collect()
    [example(index) for index in range(50)]
    assert list(kept) == [b"\0\xff" * 9]


def test_too_large_feature_is_refused():
    with pytest.raises(MemoryError, match="feature label of 2 records"):
        kernels.parse_examples([example(1)] * 2, [("label", "int64", 10**15 - 1)])
