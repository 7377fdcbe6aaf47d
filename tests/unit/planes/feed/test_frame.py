"""Frames: any batch comes out as it went in, and nothing else is taken."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as some

from tfhet.errors import DataError
from tfhet.planes.feed.delivered import BatchRequest
from tfhet.planes.feed.frame import (
    ALIGNMENT,
    Array,
    BatchLayout,
    Bytes,
    List,
    PythonJson,
    Tree,
    examples_in,
    headers_of,
    joined,
    packed,
)
from tfhet.planes.feed.message import Alive, Batch, FromServer
from tfhet.planes.feed.source import Shard
from tfhet.schema import MessageError, decode

SIZES = [(), (1,), (64, 65), (), (3, 0, 200)]


def sent(value):
    """The value after its way: packed, written, read, and unpacked."""
    tree, buffers = packed(value)
    batch = Batch(source="id", request=BatchRequest(Shard(0, 1), 0, 0), tree=tree)
    head, pieces, size = joined([(batch, buffers)])
    (header,) = headers_of(head, size, Batch)
    assert header.size == size
    memory = np.frombuffer(bytearray(b"".join(pieces[0])), np.uint8)
    assert memory.size == size
    return BatchLayout(header.tree).batch(memory)


def test_nested_values_arrive_unchanged():
    value = {
        "image": np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        "nested": [np.float64(3.5), (1, 2.5, True, None, "größer"), {"empty": np.zeros((0, 3), np.int16)}],
        "texts": ["a", "", "\0\n"],
        "bytes": [b"", b"\xff\0", bytearray(b"x")],
        "ragged": [np.ones(n, np.float32) for n in (1, 0, 5)],
        "strided": np.arange(12).reshape(3, 4)[:, ::2],
        "big_endian": np.arange(3, dtype=">i4"),
        "scalar": np.array(7, np.int8),
        "fixed": np.array(["ab", "c"]),
    }
    found = sent(value)
    np.testing.assert_array_equal(found["image"], value["image"])
    assert found["nested"][0] == 3.5 and found["nested"][1] == (1, 2.5, True, None, "größer")
    assert found["nested"][2]["empty"].shape == (0, 3) and found["nested"][2]["empty"].dtype == np.int16
    assert found["texts"] == value["texts"]
    assert found["bytes"] == [b"", b"\xff\0", b"x"]
    assert [one.tolist() for one in found["ragged"]] == [one.tolist() for one in value["ragged"]]
    np.testing.assert_array_equal(found["strided"], value["strided"])
    assert found["big_endian"].dtype == np.dtype(">i4") and found["big_endian"].tolist() == [0, 1, 2]
    assert found["scalar"].shape == () and found["scalar"] == 7
    assert found["fixed"].tolist() == ["ab", "c"]


def test_arrays_are_aligned_writable_views():
    tree, buffers = packed([np.ones(3, np.int8), np.ones(5, np.float64)])
    memory = np.zeros(2 * ALIGNMENT, np.uint8)
    first, second = BatchLayout(tree).batch(memory)
    first[0] = 7
    assert memory[0] == 7
    assert (second.__array_interface__["data"][0] - memory.__array_interface__["data"][0]) % ALIGNMENT == 0
    assert [buffer.nbytes for buffer in buffers] == [3, 40]


def test_texts_and_non_json_numbers_survive():
    assert sent(np.array(["one", None, b"two"], object)) == ["one", None, b"two"]
    assert math.isnan(sent(float("nan"))) and sent(-math.inf) == -math.inf
    assert [type(one) for one in sent([True, 1, 1.0, np.float64(2), 10**30])] == [bool, int, float, float, int]
    assert sent(["caf\udce9", 10**30]) == ["caf\udce9", 10**30]


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, object()]}, r"batch\['a'\]\[1\]"),
        ({1: np.ones(2)}, "key 1"),
        ([{"x": {1, 2}}], r"batch\[0\]\['x'\]"),
        ([np.zeros(2, [("x", "f4")])], r"batch\[0\]"),
    ],
)
def test_unsupported_value_is_named(value, where):
    with pytest.raises(DataError, match=where):
        packed(value)


@pytest.mark.parametrize(
    "tree",
    [
        Array("O", (1,)),
        Array("<f4", (3,)),
        Array("<f4", (1 << 53, 1 << 53)),
        Array("<f4", (0, 1 << 53, 1 << 53)),
        Array("no", ()),
        Array("(", ()),
        Array("(4,)f4", (1,)),
        Array("<U0", (1 << 40,)),
        Bytes(9),
        PythonJson("[" * 50_000),
        PythonJson("x"),
        List((List((Array("<i8", (2,)),), is_tuple=True),)),
    ],
)
def test_tree_beyond_its_memory_is_refused(tree):
    with pytest.raises(MessageError):
        BatchLayout(tree).batch(np.zeros(8, np.uint8))


@pytest.mark.parametrize(
    "tree",
    [
        {},
        [],
        {"type": "other"},
        {"type": "array", "dtype": "<f4", "shape": [-1]},
        {"type": "array", "dtype": "<f4", "shape": [1] * 33},
        {"type": "array", "dtype": "<f4", "shape": "x"},
        {"type": "bytes", "length": -1},
        {"type": "list", "parts": 3},
        {"type": "dict", "parts": []},
        {"type": "list", "parts": [{"type": "list", "parts": [{}]}]},
    ],
)
def test_wrong_tree_is_refused(tree):
    with pytest.raises(MessageError):
        decode(json.dumps(tree), Tree)


@pytest.mark.parametrize(
    "text",
    [b"", b"[", b"{}]", b"3", b"[3]", b"[[]]", b"\xff", b'[{"a":' * 50_000, b"[]", b"{}", b'""', b"[{}]"]
    + [
        b'[{"type":"alive","size":9}]',
        b'[{"type":"alive","size":-1},{"type":"alive","size":9}]',
        b'[{"type":"alive","size":8.5}]',
        b'[{"type":"alive","size":"8"}]',
        b'[{"type":"alive","size":8}]x',
    ],
)
def test_wrong_headers_are_refused(text):
    for size in (0, 8):
        with pytest.raises(MessageError):
            headers_of(text, size, FromServer)


def test_messages_of_a_frame_keep_their_buffers():
    messages = [(Alive(for_s=at), [memoryview(bytes([at]) * size) for size in sizes]) for at, sizes in enumerate(SIZES)]
    head, pieces, size = joined(messages)
    headers, written, begin = headers_of(head, size, Alive), b"".join(itertools.chain(*pieces)), 0
    assert [header.for_s for header in headers] == list(range(len(SIZES))) and len(written) == size
    for at, header in enumerate(headers):
        part, begin = written[begin : begin + header.size], begin + header.size
        assert part.count(at) >= sum(SIZES[at]) and header.size % ALIGNMENT == 0


_JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=6), inner, max_size=3),
)


@settings(max_examples=300)
@given(
    some.sampled_from(["array", "dict", "list", "bytes", "pythonjson"]),
    some.dictionaries(some.sampled_from(["dtype", "shape", "parts", "is_tuple", "length", "text"]), _JSON),
)
def test_random_tree_is_refused_or_a_value(kind, fields):
    try:
        tree = decode(json.dumps({**fields, "type": kind}), Tree)
        found = BatchLayout(tree).batch(np.zeros(64, np.uint8))
    except MessageError:
        return
    json.dumps(found, default=lambda one: one.tolist() if isinstance(one, np.ndarray) else one.decode("latin-1"))


@pytest.mark.parametrize(
    ("batch", "examples"),
    [
        (np.zeros((4, 2)), 4),
        ({"image": np.zeros((3, 2)), "n": 1}, 3),
        ((np.zeros(5), np.zeros(5)), 5),
        ([["a", "b"], [1, 2]], 2),
        (["a", "b", "c"], 3),
        (7, 1),
        (np.array(1), 1),
        ({}, 1),
    ],
)
def test_examples_of_a_batch(batch, examples):
    assert examples_in(batch) == examples
