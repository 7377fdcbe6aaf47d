"""A batch that the user's code can change is copied before it is sent; any other one is sent from its own memory."""

from __future__ import annotations

import types
from collections import UserDict, namedtuple
from collections.abc import Mapping

import numpy as np
import pytest

from tfhet.planes.feed.stream import owned

Pair = namedtuple("Pair", "images labels")
kept: list = []


def keep(value):
    """Returns a value that the user's code keeps."""
    kept.append(value)
    return value


def array() -> np.ndarray:
    return np.arange(12, dtype=np.int32)


def arrays(value) -> list[np.ndarray]:
    if isinstance(value, Mapping):
        value = list(value.values())
    return [one for part in value for one in arrays(part)] if isinstance(value, (list, tuple)) else [value]


def addresses(value) -> list[int]:
    return [one.__array_interface__["data"][0] for one in arrays(value)]


@pytest.mark.parametrize(
    "make",
    [
        array,
        lambda: {"image": array(), "label": [array(), array()]},
        lambda: (array(), {"more": (array(),)}),
        lambda: array().reshape(3, 4),
        lambda: array()[2:5],
        lambda: array().reshape(3, 4).T[1:].view(np.uint32),
        lambda: np.stack([array(), array()]),
        lambda: np.frombuffer(keep(bytes(12)), np.uint8),
        lambda: keep(np.frombuffer(bytes(12), np.uint8)),
    ],
)
def test_memory_of_the_batch_alone_is_not_copied(make):
    made = [make()]
    before = addresses(made[0])
    assert addresses(owned(made)) == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: keep(array()),
        lambda: keep(array())[2:5],
        lambda: keep(array()[2:5]),
        lambda: keep(array()[2:])[1:],
        lambda: keep({"image": array()}),
        lambda: [keep([array()])],
        lambda: ({"deep": keep((array(),))},),
        lambda: [np.asarray(keep(array()).data)],
        lambda: [np.frombuffer(bytearray(12), np.uint8)],
        lambda: np.frombuffer(memoryview(bytes(12)), np.uint8),
        lambda: (one := array(), one[:2]),
        lambda: [array()] * 2,
        lambda: types.MappingProxyType(keep({"image": array()})),
        lambda: UserDict({"image": array()}),
        lambda: Pair(array(), array()),
        lambda: array().view(np.recarray),
    ],
)
def test_memory_that_others_refer_to_is_copied(make):
    made = [make()]
    before = addresses(made[0])
    found = owned(made)
    assert not set(addresses(found)) & set(before)
    assert all(np.array_equal(*pair) for pair in zip(arrays(found), arrays(made[0]), strict=True))


def test_memory_mapped_file_is_copied(tmp_path):
    made = [np.memmap(tmp_path / "values", np.uint8, "w+", shape=(12,))]
    before = addresses(made[0])
    assert addresses(owned(made)) != before
