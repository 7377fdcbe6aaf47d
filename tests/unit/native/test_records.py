"""native/records.cc against TensorFlow's own parser and reader."""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfhet import native
from tfhet.pipeline import Pipeline, one_epoch
from tfhet.source import Encoded, Fixed, Raw, Scalar, TFRecordSource, encoding, examples, write_tfrecords
from tfhet.source.encoding import checksum

pytestmark = pytest.mark.skipif(not native.available("records"), reason="no compiler")

FEATURES = {
    "image": Raw((2, 3, 1)),
    "wide": Raw((2,), "int16"),
    "label": Scalar(),
    "weights": Fixed((3,)),
    "counts": Fixed((2, 2), "int32"),
    "name": Scalar("string"),
    "file": Encoded(),
}


def example(index: int) -> dict[str, Any]:
    return {
        "image": np.full((2, 3, 1), index % 256, np.uint8),
        "wide": np.array([-index, index], np.int16),
        "label": index - 3,
        "weights": np.array([index, math.inf, -0.5], np.float32),
        "counts": np.full((2, 2), index, np.int32),
        "name": f"number {index}",
        "file": b"\x89" * (index * 7),
    }


def record(index: int) -> bytes:
    encoded = {name: FEATURES[name].encode(value) for name, value in example(index).items()}
    return encoding.example({**encoded, "unknown": encoding.bytes_feature([b"left out"])})


def field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def entry(name: str, value: bytes) -> bytes:
    return field(1, field(1, name.encode()) + field(2, value))


def outcome(records: list[bytes], features: dict[str, Any], plain: bool) -> dict[str, bytes] | None:
    parse = examples.parse_plain if plain else examples.parse
    try:
        made = parse(tf.constant(records), features)
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):  # TensorFlow quotes the record in its message
        return None
    return {name: repr(value.numpy().tolist()).encode() for name, value in made.items()}


def test_batch_equals_tensorflow():
    records = tf.constant([record(index) for index in range(40)])
    ours, theirs = examples.parse(records, FEATURES), examples.parse_plain(records, FEATURES)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name].dtype == value.dtype
        np.testing.assert_array_equal(ours[name], value, err_msg=name)
        assert ours[name].shape[1:] == FEATURES[name].spec.shape[1:]


def test_empty_batch_has_the_shapes_of_specs():
    made = examples.parse(tf.constant([], tf.string), FEATURES)
    assert {name: value.shape for name, value in made.items()} == {
        name: [0, *feature.spec.shape[1:]] for name, feature in FEATURES.items()
    }


INTEGERS = {"x": Fixed((2,), "int64")}
PACKED = entry("x", field(3, field(1, b"\x05\x06")))
UNPACKED = entry("x", field(3, b"\x08\x05\x08\x06"))


@pytest.mark.parametrize(
    ("content", "valid"),
    [
        (PACKED, True),
        (UNPACKED, True),
        (entry("y", b"") + PACKED, True),
        (PACKED + entry("x", field(3, field(1, b"\x07\x08"))), True),
        (entry("x", field(3, field(1, b"\x07"))) + PACKED, True),
        (PACKED + entry("x", field(3, field(1, b"\x07"))), False),
        (PACKED + entry("x", b""), True),
        (entry("x", b""), False),
        (entry("x", field(3, b"")), False),
        (entry("x", field(1, field(1, b"ab"))), False),
        (b"", False),
        (b"\x08\x01" + PACKED, False),
        (field(1, field(2, b"\x0a\x00") + field(1, b"x")), False),
        (entry("x", field(3, field(1, b"\x05\x86"))), False),
        (entry("x", field(3, field(1, b"\x05\x06\x07"))), False),
        (b"\x0a\x7f" + PACKED, False),
    ],
)
def test_validity_and_values_equal_tensorflow(content: bytes, valid: bool):
    records = [field(1, content)]
    theirs = outcome(records, INTEGERS, plain=True)
    if content[:2] != b"\x0a\x7f":  # a length beyond the end: TensorFlow takes what there is
        assert (theirs is not None) == valid
    assert (outcome(records, INTEGERS, plain=False) is not None) == valid
    if valid:
        assert outcome(records, INTEGERS, plain=False) == theirs


def test_two_examples_in_a_record_are_merged():
    records = [field(1, PACKED) + field(1, entry("x", field(3, field(1, b"\x01\x02"))))]
    assert outcome(records, INTEGERS, plain=False) == outcome(records, INTEGERS, plain=True) == {"x": b"[[1, 2]]"}


@pytest.mark.parametrize(
    ("features", "named"),
    [
        ({"absent": Scalar()}, "absent of example 2"),
        ({"image": Raw((2, 2, 1))}, "image of example 2 .* 6 bytes, not 4"),
        ({"label": Scalar("float32")}, "label of example 2 .* float"),
        ({"weights": Fixed((2,))}, "weights of example 2 .* 3 values, not 2"),
        (None, r"example 2 .*tf\.train\.Example"),
    ],
)
def test_misfitting_feature_is_named_with_its_example(features: dict[str, Any] | None, named: str):
    fits = {name: FEATURES[name].encode(value) for name, value in example(0).items()}
    fits |= {"absent": encoding.int64_feature(np.array([1]))}
    fits |= {"image": Raw((2, 2, 1)).encode(np.zeros((2, 2, 1), np.uint8)), "label": Scalar("float32").encode(1.0)}
    fits |= {"weights": Fixed((2,)).encode(np.zeros(2, np.float32))}
    good = encoding.example(fits) if features else record(0)
    bad = record(1) if features else b"\xff\xff"
    with pytest.raises(tf.errors.InvalidArgumentError, match=named):
        examples.parse(tf.constant([good, good, bad, good]), features or FEATURES)


def mutated(original: bytes, draw: random.Random) -> bytes:
    made = bytearray(original)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(made))
        kind = draw.randrange(4)
        if kind == 0:
            made[at] = draw.randrange(256)
        elif kind == 1:
            del made[at : at + draw.randint(1, 4)]
        elif kind == 2:
            made[at:at] = draw.randbytes(draw.randint(1, 4))
        else:
            made[at] ^= 1 << draw.randrange(8)
        if not made:
            break
    return bytes(made)


def test_mutated_records_equal_tensorflow_or_fail():
    draw, passed, refused = random.Random(5), 0, 0
    original = record(2)
    for _ in range(600):
        changed = mutated(original, draw)
        ours, theirs = outcome([changed], FEATURES, False), outcome([changed], FEATURES, True)
        if ours is not None:
            assert ours == theirs, changed
            passed += 1
        elif theirs is not None:  # only where protobuf itself finds no message
            with pytest.raises(Exception, match=r"(?i)pars|decod|truncat|message|utf"):
                tf.train.Example.FromString(changed)
            refused += 1
    assert passed > 24 and refused < 24


# --- files


SMALL = {"image": FEATURES["image"], "label": FEATURES["label"]}


def written(directory: Path, count: int, shards: int = 3) -> TFRecordSource:
    few = ({name: example(index)[name] for name in SMALL} for index in range(count))
    return TFRecordSource.from_directory(write_tfrecords(directory / "set", few, shards, SMALL))


def columns(pipeline: Pipeline) -> dict[int, tuple[Any, ...]]:
    rows = {}
    for batch in pipeline.dataset(epoch=4).as_numpy_iterator():
        for key, *row in zip(batch["id"], batch["image"].tolist(), batch["label"], batch["epoch"], strict=True):
            rows[int(key)] = (row[0], int(row[1]), int(row[2]))
    return rows


def test_blocks_of_any_size_are_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = written(tmp_path, 50)
    assert source.reads_blocks()
    in_blocks = []
    for block_bytes in (16, 200, 1 << 20):
        monkeypatch.setattr(examples, "BLOCK_BYTES", block_bytes)
        in_blocks.append((columns(Pipeline(source, "", 7)), batches_of(source)))
    monkeypatch.setenv("TFHET_NATIVE", "off")
    assert not source.reads_blocks()
    rows, batches = columns(Pipeline(source, "", 7)), batches_of(source)
    assert in_blocks == [(rows, batches)] * 3 and len(rows) == 50
    assert [len(batch) for batch in batches] == [7] * 7 + [1]


def batches_of(source: TFRecordSource) -> list[list[int]]:
    return [batch["id"].numpy().tolist() for batch in one_epoch(Pipeline(source, "", 7), threads=1)]


def test_only_local_decoded_files_are_read_in_blocks(tmp_path: Path):
    assert not examples.blocks_readable(("a.tfrecord",), FEATURES)
    assert not examples.blocks_readable(("s3://bucket/a.tfrecord",), SMALL)
    assert not examples.blocks_readable(("a.tfrecord",), {"x": Fixed((0,))})
    assert examples.blocks_readable(("a.tfrecord",), SMALL)


def framed(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    sums = (struct.pack("<I", checksum(part)) for part in (length, content))
    return length + next(sums) + content + next(sums)


def blocks_of(file: Path, features: dict[str, Any]) -> tf.data.Dataset:
    zero = tf.constant(0, tf.int64)
    return examples.read_blocks(tf.constant(str(file)), zero, zero, features)


def all_of(file: Path, features: dict[str, Any]) -> list[Any]:
    return list(blocks_of(file, features))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 511, 512, 1535, 1536, 1537, 3072, 5000])
def test_checksum_is_right_at_every_length(tmp_path: Path, size: int):
    features = {"x": Raw((max(size, 1),))}
    content = features["x"].encode(np.arange(max(size, 1)).astype(np.uint8))
    whole = encoding.example({"x": content})
    (tmp_path / "a").write_bytes(framed(whole) * 2)
    ((ids, _, made),) = all_of(tmp_path / "a", features)
    assert ids.numpy().tolist() == [0, 1]
    assert made["x"].numpy()[1].tolist() == (np.arange(max(size, 1)) % 256).tolist()


def test_empty_file_has_no_blocks(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"")
    assert all_of(tmp_path / "a", SMALL) == []
    with pytest.raises(tf.errors.NotFoundError, match="absent"):
        all_of(tmp_path / "absent", SMALL)


def test_every_flipped_bit_and_cut_is_found(tmp_path: Path):
    content = encoding.example({name: SMALL[name].encode(example(1)[name]) for name in SMALL})
    good, file = framed(content) * 2, tmp_path / "a"
    blocks = blocks_of(file, SMALL)  # each turn reads the file again
    for at in range(0, len(good), 5):
        bad = bytearray(good)
        bad[at] ^= 16
        file.write_bytes(bad)
        with pytest.raises(tf.errors.DataLossError, match=rf"/a: .* at byte (0|{len(good) // 2})\b"):
            list(blocks)
    for end in set(range(1, len(good), 9)) - {len(good) // 2}:
        file.write_bytes(good[:end])
        with pytest.raises(tf.errors.DataLossError, match="/a: "):
            list(blocks)
