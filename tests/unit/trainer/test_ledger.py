from __future__ import annotations

import random

import numpy as np
import pytest

from tfhet.errors import DataError
from tfhet.pipeline import Rest
from tfhet.source import IdSet, example_id
from tfhet.trainer.manifest import Ledger

SIZES = (3, 0, 1, 4)
ALL = [example_id(split, position) for split, size in enumerate(SIZES) for position in range(size)]


def ledger(seen: object, *left: bool) -> Ledger:
    return Ledger("abc", Rest(np.array(left or (True,) * len(SIZES)), IdSet.of(sorted(seen))))  # type: ignore[call-overload]


def test_ledger_is_read_as_written(tmp_path):
    ledger(ALL[5:], False, False, False, True).write(tmp_path / "ledger.npz")
    found = Ledger.read(tmp_path / "ledger.npz")
    assert found.fingerprint == "abc"
    assert found.rest.splits.tolist() == [False, False, False, True]
    assert found.rest.seen.ids().tolist() == ALL[5:]


def test_missing_ledger_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"ledger\.npz"):
        Ledger.read(tmp_path / "ledger.npz")


def test_ledger_is_small(tmp_path):
    whole = Rest(np.arange(100_000) == 5, IdSet.of())
    half = Rest(np.ones(1, bool), IdSet.of(np.arange(0, 1_000_000, 2)))
    for number, (rest, most) in enumerate([(whole, 101_000), (half, 145_000)]):
        path = tmp_path / f"{number}.npz"
        Ledger("abc", rest).write(path)
        assert path.stat().st_size < most


def test_damaged_ledger_is_named(tmp_path):
    path, drawn = tmp_path / "ledger.npz", random.Random(5)
    Ledger("abc", Rest(np.arange(500) % 2 == 0, IdSet.of(np.arange(3000) * 7))).write(path)
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


def test_file_of_something_else_is_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.arange(3))
    np.savez(tmp_path / "other.npz", fingerprint=np.array("abc"))
    of = {"fingerprint": np.array("abc"), "splits": np.ones(2, bool), "seen": np.zeros((1, 9), np.int64)}
    np.savez(tmp_path / "words.npz", **{**of, "splits": np.array(["a"])})
    np.savez(tmp_path / "narrow.npz", **{**of, "seen": np.zeros((2, 4), np.int64)})
    np.savez(tmp_path / "former.npz", fingerprint=np.array("abc"), splits=np.arange(2), ids=np.arange(2))
    for name in ("one.npy", "other.npz", "words.npz", "narrow.npz", "former.npz"):
        with pytest.raises(DataError, match=name):
            Ledger.read(tmp_path / name)
