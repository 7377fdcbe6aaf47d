"""TFRecord files and Examples, byte for byte as TensorFlow writes them."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, strategies as st

from tfhet.source import Encoded, Fixed, Raw, Scalar, encoding, write_tfrecords

BYTES = st.lists(st.binary(max_size=300), max_size=3)
FLOATS = st.lists(st.floats(width=32), max_size=40)
INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40)
VALUES = st.one_of(
    st.tuples(st.just("bytes"), BYTES), st.tuples(st.just("float"), FLOATS), st.tuples(st.just("int64"), INTEGERS)
)


def encoded(kind: str, values: list) -> bytes:
    if kind == "bytes":
        return encoding.bytes_feature(values)
    if kind == "float":
        return encoding.float_feature(np.array(values, np.float32))
    return encoding.int64_feature(np.array(values, np.int64))


def by_tensorflow(kind: str, values: list) -> tf.train.Feature:
    if kind == "bytes":
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if kind == "float":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), VALUES, max_size=4))
def test_example_equals_tensorflow(features):
    expected = tf.train.Features(feature={name: by_tensorflow(*value) for name, value in features.items()})
    made = encoding.example({name: encoded(*value) for name, value in features.items()})
    assert made == tf.train.Example(features=expected).SerializeToString(deterministic=True)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_checksum_gives_published_values(data, expected):
    # RFC 3720, appendix B.4, and the check value of CRC-32/ISCSI in the catalogue of CRC algorithms.
    rotated = (encoding.checksum(data) - 0xA282EAD8) & 0xFFFFFFFF
    assert (rotated << 15 | rotated >> 17) & 0xFFFFFFFF == expected


def test_files_equal_tensorflow(tmp_path):
    features = {
        "label": Scalar(),
        "image": Raw((3, 5, 3)),
        "wide": Raw((2,), "int16"),
        "weights": Fixed((2, 3)),
        "names": Fixed((2,), "string"),
        "file": Encoded(),
        "é": Scalar("bool"),
        "": Fixed((0,), "int32"),
    }
    random = np.random.default_rng(0)
    examples = [
        {
            "label": index * (-(300**index)),
            "image": random.integers(0, 256, (3, 5, 3), np.uint8),
            "wide": np.array([-index, 300 * index]),
            "weights": random.normal(size=(2, 3)).astype(np.float32),
            "names": ["ö" * index, b"\xff"],
            "file": random.bytes(index * 100),
            "é": index % 2 == 0,
            "": [],
        }
        for index in range(6)
    ]
    write_tfrecords(tmp_path / "own", examples, 1, features)
    (own,) = (tmp_path / "own").glob("*.tfrecord")
    with tf.io.TFRecordWriter(str(tmp_path / "by_tensorflow")) as writer:
        for each in examples:
            values = {
                "label": by_tensorflow("int64", [each["label"]]),
                "image": by_tensorflow("bytes", [each["image"].tobytes()]),
                "wide": by_tensorflow("bytes", [struct.pack("<hh", *each["wide"])]),
                "weights": by_tensorflow("float", each["weights"].ravel()),
                "names": by_tensorflow("bytes", [each["names"][0].encode(), each["names"][1]]),
                "file": by_tensorflow("bytes", [each["file"]]),
                "é": by_tensorflow("int64", [int(each["é"])]),
                "": by_tensorflow("int64", []),
            }
            message = tf.train.Example(features=tf.train.Features(feature=values))
            writer.write(message.SerializeToString(deterministic=True))
    assert own.read_bytes() == (tmp_path / "by_tensorflow").read_bytes()
