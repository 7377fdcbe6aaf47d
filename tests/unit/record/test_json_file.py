"""record/json_file.py and json_object.py: JSON files that are whole, plain, and of a known schema."""

from __future__ import annotations

import errno
import json
import math
from pathlib import Path

import numpy as np
import pytest

from tfhet.errors import DataError, UsageError
from tfhet.record import check_schema, json_number, json_value, read_json, write_json, write_text


def test_numbers_that_json_does_not_know_travel_as_words_and_come_back() -> None:
    held = json_value({"loss": math.nan, "high": math.inf, "low": -math.inf})
    assert held == {"loss": "NaN", "high": "Infinity", "low": "-Infinity"}
    assert math.isnan(json_number(held["loss"]))
    assert json_number(held["low"]) == -math.inf
    assert json_number("algo-1") == "algo-1"


def test_numpy_values_paths_and_sets_become_plain_json() -> None:
    held = json_value({"a": np.float32(1.5), "b": np.arange(2), "c": Path("x"), "d": {"q", "p"}, 5: True})
    assert held == {"a": 1.5, "b": [0, 1], "c": "x", "d": ["p", "q"], "5": True}
    json.dumps(held)


def test_a_write_that_fails_leaves_the_old_file_and_no_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deep" / "a.json"
    write_json(path, {"x": 1})

    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(OSError):
        write_text(path, "new")
    assert json.loads(path.read_text()) == {"x": 1}
    assert [file.name for file in path.parent.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"{", DataError, "not JSON"),
        (b"[1]", DataError, "a list, not an object"),
        (b"\xff\xfe", DataError, "not UTF-8"),
        (b'{"a": ' + b"9" * 5000 + b"}", DataError, "4300 digits"),
        (b'{"a": ' + b"[" * 100_000, DataError, "recursion"),
    ],
    ids=["cut", "list", "bytes", "digits", "endless"],
)
def test_a_file_that_is_no_json_object_is_named(
    tmp_path: Path, content: bytes, error: type[Exception], words: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(error, match=words) as caught:
        read_json(path, "thing")
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_folder_are_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_json(tmp_path / "no.json", "thing")
    with pytest.raises(UsageError, match="is a folder"):
        read_json(tmp_path, "thing")


@pytest.mark.parametrize(("found", "said"), [(None, "no schema version"), (2, "schema 2"), (True, "schema True")])
def test_another_schema_is_refused_and_named(found: object, said: str) -> None:
    with pytest.raises(UsageError, match=f"thing in f.json has {said}; this tfhet reads schema 1"):
        check_schema({"schema": found}, "thing", 1, "f.json")


def test_half_a_surrogate_pair_is_written_as_json_escapes_it(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.json", {"file": "caf\udce9"})
    assert read_json(path, "thing") == {"file": "caf\udce9"}


def test_a_path_that_cannot_be_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_json(tmp_path / "a\0b", "thing")
    with pytest.raises(UsageError, match="cannot be read"):
        read_json(tmp_path / ("x" * 300), "thing")
