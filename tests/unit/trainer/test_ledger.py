from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfhet.errors import DataError
from tfhet.source import example_id
from tfhet.trainer.ledger import Ledger

SIZES = (3, 0, 1, 4)
ALL = [example_id(split, position) for split, size in enumerate(SIZES) for position in range(size)]


def numbers(ids: object) -> np.ndarray:
    return np.array(sorted(ids), np.int64)  # type: ignore[call-overload]


@given(st.sets(st.sampled_from(ALL)), st.booleans())
def test_what_was_seen_comes_back(seen: set[int], known: bool):
    sizes = SIZES if known else None
    found = Ledger.of("abc", numbers(seen), sizes).seen(sizes)
    assert found.dtype == np.int64 and found.tolist() == sorted(seen)


def test_a_whole_split_is_one_number():
    ledger = Ledger.of("abc", numbers([*ALL[:4], ALL[5]]), SIZES)
    assert ledger.splits.tolist() == [0, 2] and ledger.ids.tolist() == [ALL[5]]


def test_a_ledger_is_read_as_it_was_written(tmp_path):
    Ledger.of("abc", numbers(ALL[2:]), SIZES).write(tmp_path / "ledger.npz")
    found = Ledger.read(tmp_path / "ledger.npz")
    assert found is not None
    assert found.fingerprint == "abc"
    assert found.seen(SIZES).tolist() == ALL[2:]


def test_where_there_is_none_there_is_none(tmp_path):
    assert Ledger.read(tmp_path / "ledger.npz") is None


def test_a_ledger_of_a_million_examples_of_whole_splits_is_small(tmp_path):
    sizes = (1000,) * 1000
    seen = np.concatenate([example_id(split, 0) + np.arange(1000) for split in range(999)])
    Ledger.of("abc", seen, sizes).write(tmp_path / "ledger.npz")
    assert (tmp_path / "ledger.npz").stat().st_size < 16_000


def test_splits_that_the_source_does_not_have_are_refused():
    ledger = Ledger.of("abc", numbers(ALL), SIZES)
    for sizes in ((3, 0, 1), None):
        with pytest.raises(DataError, match="splits that the source does not have"):
            ledger.seen(sizes)


def test_a_damaged_ledger_is_named_or_reads_well(tmp_path):
    path, drawn = tmp_path / "ledger.npz", random.Random(5)
    Ledger("abc", np.arange(500), np.arange(3000) * 7).write(path)
    whole, refused = path.read_bytes(), 0
    damaged = [whole[:length] for length in range(0, len(whole), 211)]
    for _ in range(100):
        content = bytearray(whole)
        content[drawn.randrange(len(content))] ^= 1 << drawn.randrange(8)
        damaged.append(bytes(content))
    for content in damaged:
        path.write_bytes(content)
        try:
            Ledger.read(path)
        except DataError as error:  # and nothing else
            refused += str(path) in str(error) and error.path == str(path)
    assert refused > 90


def test_a_file_of_something_else_is_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.arange(3))
    np.savez(tmp_path / "other.npz", fingerprint=np.array("abc"))
    np.savez(tmp_path / "words.npz", fingerprint=np.array("abc"), splits=np.array(["a"]), ids=np.arange(2))
    for name in ("one.npy", "other.npz", "words.npz"):
        with pytest.raises(DataError, match=name):
            Ledger.read(tmp_path / name)
