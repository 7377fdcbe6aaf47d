"""TFRecord files that are compressed: read, counted, found and refused like plain ones."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import DataError, NotReady, UsageError
from tfhet.file_lock import locked
from tfhet.source import Raw, Scalar, TFRecordSource, diagnose, example_id, unpacked, write_tfrecords
from tfhet.source.framing import GZIP, PLAIN, ZLIB, Unpacked, compression_of, fault, offsets, reach, walk

FEATURES = {"image": Raw((8, 8, 3)), "label": Scalar()}
COMPRESS = {GZIP: gzip.compress, ZLIB: zlib.compress}
SUFFIX = {GZIP: ".gz", ZLIB: ""}


def example(index: int) -> dict:
    return {"image": np.random.default_rng(index).integers(0, 256, (8, 8, 3), np.uint8), "label": index}


@pytest.fixture(params=[GZIP, ZLIB])
def kind(request) -> str:
    return request.param


@pytest.fixture
def plain(tmp_path) -> Path:
    return write_tfrecords(tmp_path / "plain", map(example, range(40)), 3, FEATURES)


@pytest.fixture
def packed(tmp_path, plain, kind) -> Path:
    target = tmp_path / "packed"
    target.mkdir()
    for file in plain.glob("*.tfrecord"):
        (target / f"{file.name}{SUFFIX[kind]}").write_bytes(COMPRESS[kind](file.read_bytes()))
    return target


def content(source: TFRecordSource) -> list[list[bytes]]:
    splits = (tf.constant(split, tf.int64) for split in range(source.split_count()))
    return [[record.numpy() for _, record in source.read(split)] for split in splits]


def cut(file: Path, by: int) -> None:
    file.write_bytes(file.read_bytes()[:-by])


def test_compressed_files_are_read_and_counted(plain, packed, kind):
    source, bare = TFRecordSource(packed, FEATURES), TFRecordSource.from_directory(plain)
    assert source.compression == kind
    assert not source.reads_blocks()
    source.check()
    assert source.split_sizes() == bare.split_sizes()
    assert content(source) == content(bare)
    assert source.fingerprint() == TFRecordSource(packed, FEATURES).fingerprint() != bare.fingerprint()


def test_records_are_found_by_id_and_position(plain, packed):
    source, bare = TFRecordSource(packed, FEATURES), TFRecordSource.from_directory(plain)
    ids = [example_id(2, 5), example_id(0, 0), example_id(1, 12)]
    of_ids = [[record.numpy() for *_, record in each.read_at(ids)] for each in (source, bare)]
    assert of_ids[0] == of_ids[1]
    assert [offset for _, offset in source.places(ids)] == [offset for _, offset in bare.places(ids)]
    starts = source.starts(np.array([0, 4, 2]))
    rest = list(source.read_from(tf.constant(1, tf.int64), tf.constant(4, tf.int64), tf.constant(starts[1])))
    assert [position.numpy() for position, _ in rest] == list(range(4, len(content(bare)[1])))
    assert [record.numpy() for _, record in rest] == content(bare)[1][4:]


@pytest.mark.parametrize("by", [1, 200])
def test_cut_file_is_refused_or_read_partly(packed, kind, by):
    file = sorted(packed.iterdir())[1]
    cut(file, by)
    with pytest.raises(DataError, match=f"{file.name}.* {kind} stream.*cut"):
        TFRecordSource(packed, FEATURES).check()
    source = TFRecordSource(packed, FEATURES, on_bad_record="skip")
    source.check()
    (damage,) = source.damages()
    whole = offsets(str(file))
    assert (damage.file, damage.offset, damage.position) == (str(file), whole[-1], len(whole) - 1)
    assert 0 < source.split_sizes()[1] == len(whole) - 1 == len(content(source)[1]) <= 14


def test_broken_stream_is_found(packed, kind):
    file = sorted(packed.iterdir())[0]
    data = bytearray(file.read_bytes())
    data[-4 if kind == ZLIB else -8] ^= 1  # its checksum
    file.write_bytes(data)
    with pytest.raises(DataError, match=f"{kind} stream"):
        TFRecordSource(packed, FEATURES).check()


def test_bad_record_in_compressed_file_is_named(tmp_path, plain, kind):
    bare = sorted(plain.glob("*.tfrecord"))[0]
    frame, sound = list(walk(str(bare)))[3:5]
    data = bytearray(bare.read_bytes())
    data[frame.offset + 20] ^= 1
    file = tmp_path / "bad.tfrecord"
    file.write_bytes(COMPRESS[kind](bytes(data)))
    source = TFRecordSource(file, FEATURES)
    source.check()
    found = diagnose(source, [3])[0]
    assert found.offset == frame.offset
    assert "data's checksum" in found.reason
    assert "unpacked" in fault(str(file), len(data) - 3)
    assert [record.numpy() for *_, record in source.read_at([4])] == [bytes(data)[sound.offset + 12 : sound.end - 4]]


def test_mixed_compression_is_refused(tmp_path, plain, packed, kind):
    other = sorted(plain.glob("*.tfrecord"))[2]
    (packed / "x.tfrecord").write_bytes(other.read_bytes())
    with pytest.raises(UsageError, match=f"x.tfrecord .*{kind}"):
        TFRecordSource(packed, FEATURES).check()
    (plain / "x.tfrecord").write_bytes(COMPRESS[kind](other.read_bytes()))
    with pytest.raises(UsageError, match=f"x.tfrecord .*{kind}"):
        TFRecordSource(plain, FEATURES).check()


def test_files_of_other_file_systems_are_unpacked(packed):
    file = str(sorted(packed.iterdir())[0])
    assert list(walk(f"file://{file}")) == list(walk(file))
    assert reach([f"file://{file}"]) == reach([file])


def test_members_of_a_gzip_file_are_joined(tmp_path):
    data = np.random.default_rng(0).bytes(700_000) + bytes(900_000)
    file = tmp_path / "several.gz"
    file.write_bytes(b"".join(gzip.compress(data[at : at + 300_000]) for at in range(0, len(data), 300_000)))
    with open(file, "rb") as stream:
        unpacked = Unpacked(stream, GZIP)
        assert unpacked.read(len(data) + 1) == data
        assert unpacked.seek(650_000) == 650_000
        assert unpacked.read(10) == data[650_000:650_010]
        assert unpacked.seek(1 << 30) == len(data)
        assert unpacked.fault == ""


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\x1f\x8b\x08", GZIP),
        (b"\x78\x9c\x00", ZLIB),
        (b"\x78\x01\x00", ZLIB),
        (b"\x78\x00\x00", PLAIN),
        (b"\x10\x00\x00", PLAIN),
        (b"\x78", PLAIN),
        (b"", PLAIN),
    ],
)
def test_first_bytes_show_the_compression(head, expected):
    assert compression_of(head) == expected


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("tfhet.source.unpacked.cache_dir", lambda _: tmp_path / "cache")
    return tmp_path / "cache" / "unpacked"


def loaded(source: TFRecordSource) -> dict:
    ids = [example_id(split, at) for split, size in enumerate(source.sizes()) for at in reversed(range(size))]
    return source.load(np.array(ids))


def test_compressed_files_load_in_any_order(plain, packed, cache, monkeypatch):
    source = TFRecordSource(packed, FEATURES)
    assert source.can_load() and not source.is_remote
    found, wanted = loaded(source), loaded(TFRecordSource(plain, FEATURES))
    np.testing.assert_array_equal(found["image"], wanted["image"])
    np.testing.assert_array_equal(found["label"], wanted["label"])
    assert len(list(cache.glob("*.tfrecord"))) == 3
    monkeypatch.setattr(unpacked, "_unpack", None)  # they are unpacked once
    np.testing.assert_array_equal(loaded(TFRecordSource(packed, FEATURES))["label"], wanted["label"])


@pytest.mark.parametrize("by", [1, 200])
def test_cut_file_is_not_unpacked(packed, cache, kind, by):
    file = sorted(packed.iterdir())[1]
    cut(file, by)
    with pytest.raises(DataError, match=f"{file.name}.* {kind} stream.*cut"):
        TFRecordSource(packed, FEATURES).sizes()
    assert len(list(cache.glob("*.tfrecord"))) <= 2 and not list(cache.glob(".part*"))


def test_changed_file_is_unpacked_again(packed, cache, kind):
    first, second = sorted(packed.iterdir())[:2]
    wanted = loaded(TFRecordSource(second, FEATURES))["label"]
    loaded(TFRecordSource(first, FEATURES))
    first.write_bytes(second.read_bytes())
    np.testing.assert_array_equal(loaded(TFRecordSource(first, FEATURES))["label"], wanted)


def test_bad_record_of_a_copy_names_its_file(plain, tmp_path, cache, kind):
    data = bytearray(sorted(plain.glob("*.tfrecord"))[0].read_bytes())
    data[40] ^= 1
    file = tmp_path / "bad.tfrecord"
    file.write_bytes(COMPRESS[kind](bytes(data)))
    with pytest.raises(DataError, match=r"bad\.tfrecord") as caught:
        loaded(TFRecordSource(file, FEATURES))
    assert (caught.value.path, caught.value.offset) == (str(file), 0)


def test_plain_file_among_compressed_ones_is_refused(plain, packed, cache, kind):
    (packed / "x.tfrecord").write_bytes(sorted(plain.glob("*.tfrecord"))[0].read_bytes())
    with pytest.raises(UsageError, match=f"x.tfrecord .*{kind}"):
        TFRecordSource(packed, FEATURES).sizes()


def test_unused_copies_are_removed(packed, cache):
    loaded(TFRecordSource(packed, FEATURES))
    old, *_ = cache.glob("*.tfrecord")
    os.utime(old, (1, 1))
    unpacked.unpacked(TFRecordSource(packed, FEATURES).files[:0], GZIP)
    assert not old.exists() and len(list(cache.glob("*.tfrecord"))) == 2


def test_file_that_another_process_unpacks_has_a_deadline(packed, cache, kind, monkeypatch):
    file = str(sorted(packed.iterdir())[0])
    cache.mkdir(parents=True)
    monkeypatch.setattr(unpacked, "LIMIT_S", 0.1)
    with locked(cache / f"{unpacked._name(file)}.lock", 1.0), pytest.raises(NotReady, match="another process"):
        unpacked.unpacked([file], kind)
