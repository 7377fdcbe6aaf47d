"""Frames: any batch comes out as it went in, and nothing else is taken."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as some

from tfhet.errors import DataError
from tfhet.planes.feed.frame import ALIGNMENT, LENGTHS, BatchLayout, FrameError, examples_in, headers_of, joined, packed

SIZES = [(), (1,), (64, 65), (), (3, 0, 200)]


def sent(value):
    """The value after its way: packed, written, read, and unpacked."""
    tree, buffers = packed(value)
    written = b"".join(bytes(piece) for piece in joined([({"tree": tree}, buffers)]))
    size, rest = LENGTHS.unpack(written[: LENGTHS.size])
    ((header, count),) = headers_of(written[LENGTHS.size : LENGTHS.size + size], rest)
    assert count == rest
    memory = np.frombuffer(bytearray(written[LENGTHS.size + size :]), np.uint8)
    assert memory.size == rest
    return BatchLayout(header["tree"]).batch(memory)


def test_a_nest_of_everything_comes_out_as_it_went_in():
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


def test_arrays_are_views_that_can_be_written_to_at_aligned_addresses():
    tree, buffers = packed([np.ones(3, np.int8), np.ones(5, np.float64)])
    memory = np.zeros(2 * ALIGNMENT, np.uint8)
    first, second = BatchLayout(tree).batch(memory)
    first[0] = 7
    assert memory[0] == 7
    assert (second.__array_interface__["data"][0] - memory.__array_interface__["data"][0]) % ALIGNMENT == 0
    assert [buffer.nbytes for buffer in buffers] == [3, 40]


def test_arrays_of_texts_are_lists_and_numbers_that_json_lacks_survive():
    assert sent(np.array(["one", None, b"two"], object)) == ["one", None, b"two"]
    assert math.isnan(sent(float("nan"))) and sent(-math.inf) == -math.inf


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, object()]}, r"batch\['a'\]\[1\] is of type builtins.object"),
        ({1: np.ones(2)}, r"batch has the key 1"),
        ([{"x": {1, 2}}], r"batch\[0\]\['x'\] is of type builtins.set"),
        ([np.zeros(2, [("x", "f4")])], r"batch\[0\] is of the dtype .*: give each field by itself"),
    ],
)
def test_what_cannot_be_sent_is_named(value, where):
    with pytest.raises(DataError, match=where):
        packed(value)


@pytest.mark.parametrize(
    "tree",
    [
        None,
        [],
        {},
        {"array": "O", "shape": [1]},
        {"array": "<f4", "shape": [3]},
        {"array": "<f4", "shape": [-1]},
        {"array": "<f4", "shape": [1 << 62, 1 << 62]},
        {"array": "no", "shape": []},
        {"array": "<U0", "shape": [1 << 40]},
        {"array": "<f4", "shape": "x"},
        {"bytes": 9},
        {"bytes": -1},
        {"list": 3},
        {"dict": []},
        {"tuple": [{"list": [{"array": "<i8", "shape": [2]}]}]},
    ],
)
def test_a_tree_that_does_not_fit_its_memory_is_refused(tree):
    with pytest.raises(FrameError):
        BatchLayout(tree).batch(np.zeros(8, np.uint8))


@pytest.mark.parametrize(
    "text",
    [b"", b"[", b"{}]", b"3", b"[3]", b"[[]]", b"\xff", b'[{"a":' * 50_000]
    + [
        b'[{"bytes":9}]',
        b'[{"bytes":-1},{"bytes":9}]',
        b'[{"bytes":8.0}]',
        b'[{"bytes":"8"}]',
        b'[{"bytes":8}]x',
        b"[]",
    ],
)
def test_headers_that_are_none_or_do_not_fit_are_refused(text):
    with pytest.raises(FrameError):
        headers_of(text, 8)


@pytest.mark.parametrize("text", [b"[]", b"{}", b'""'])
def test_a_frame_without_a_message_is_refused(text):
    with pytest.raises(FrameError):
        headers_of(text, 0)


def test_messages_of_one_frame_come_apart_with_their_buffers():
    messages = [({"at": at}, [memoryview(bytes([at]) * size) for size in sizes]) for at, sizes in enumerate(SIZES)]
    written = b"".join(bytes(piece) for piece in joined(messages))
    size, rest = LENGTHS.unpack(written[: LENGTHS.size])
    begin = LENGTHS.size + size
    headers = headers_of(written[LENGTHS.size : begin], rest)
    assert [header["at"] for header, _ in headers] == list(range(len(SIZES))) and len(written) == begin + rest
    for at, (_, count) in enumerate(headers):
        part, begin = written[begin : begin + count], begin + count
        assert part.count(at) >= sum(SIZES[at]) and count % ALIGNMENT == 0


_JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=6), inner, max_size=3),
)


@settings(max_examples=300)
@given(some.dictionaries(some.sampled_from(["array", "shape", "dict", "list", "tuple", "bytes", "value"]), _JSON))
def test_rubbish_is_refused_or_a_value_and_never_anything_else(tree):
    try:
        found = BatchLayout(tree).batch(np.zeros(64, np.uint8))
    except FrameError:
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
def test_the_examples_of_a_batch_are_counted(batch, examples):
    assert examples_in(batch) == examples
