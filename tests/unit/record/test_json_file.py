"""record/json_file.py and schema.py: JSON files that are whole, plain, and of a known schema."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfhet.errors import ClusterError, DataError, UsageError
from tfhet.record import Spread, json_value, read_json, write_json, write_text
from tfhet.schema import Count, check_schema, from_json


@dataclass(frozen=True)
class Thing:
    name: str
    count: Count = 3
    loss: float = 0.0
    parts: tuple[Count, ...] = ()
    more: Mapping[str, float] | None = None


def test_values_become_plain_json() -> None:
    held = json_value({"loss": math.nan, "high": math.inf, "low": -math.inf, "spread": Spread(1.0, 0.5, math.nan)})
    assert held["spread"] == {"median": 1.0, "p10": 0.5, "p90": "NaN", "samples": []}
    assert [held[name] for name in ("loss", "high", "low")] == ["NaN", "Infinity", "-Infinity"]
    held = json_value({"a": np.float32(1.5), "b": np.arange(2), "c": Path("x"), "d": {"q", "p"}, 5: True})
    assert json.loads(json.dumps(held)) == {"a": 1.5, "b": [0, 1], "c": "x", "d": ["p", "q"], "5": True}


@pytest.mark.parametrize(
    ("content", "thing"),
    [
        ({"name": "a"}, Thing("a")),
        ({"name": "a", "count": None, "later": 1}, Thing("a")),
        ({"name": "a", "loss": "-Infinity", "parts": [1, 2]}, Thing("a", loss=-math.inf, parts=(1, 2))),
        ({"name": "a", "more": {"x": "Infinity", "y": 2}}, Thing("a", more={"x": math.inf, "y": 2.0})),
    ],
)
def test_an_object_is_read(content: dict[str, Any], thing: Thing) -> None:
    found = from_json(Thing, content, "thing")
    assert found == thing and json_value(found) == json_value(thing)


@pytest.mark.parametrize(
    ("content", "field", "is_strict"),
    [
        ([], "object", False),
        ({}, "`name`", False),
        ({"name": None}, "`name`", False),
        ({"name": 3}, "`name` is 3", False),
        ({"name": "a", "count": -1}, "`count` is -1", False),
        ({"name": "a", "count": True}, "`count` is True", False),
        ({"name": "a", "parts": [1, "x"]}, r"`parts\[1\]` is 'x'", False),
        ({"name": "a", "more": {"x": {}}}, "`more", False),
        ({"name": "a", "loss": 10**400}, "`loss`", False),
        ({"name": "a", "count": None}, "`count`", True),
        ({"name": "a", "loss": "NaN"}, "`loss` is 'NaN'", True),
    ],
)
def test_a_wrong_field_is_named(content: Any, field: str, is_strict: bool) -> None:
    for error in (DataError, ClusterError):
        with pytest.raises(error, match=f"^thing f.json: .*{field}"):
            from_json(Thing, content, "thing f.json", is_strict=is_strict, error=error)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "a.json"
    write_json(path, {"x": 1})

    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(OSError):
        write_text(path, "new")
    assert json.loads(path.read_text()) == {"x": 1}
    assert [file.name for file in path.parent.iterdir()] == ["a.json"]


def test_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_text(path, "new")
    assert os.read(reader, 10) == b"new" and path.is_fifo()
    os.close(reader)


@pytest.mark.parametrize(
    "content", [b"{", b"[1]", b"\xff\xfe", b'{"a": ' + b"9" * 5000 + b"}", b'{"a": ' + b"[" * 100_000], ids=len
)
def test_a_file_that_is_not_a_json_object_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=str(path)):
        read_json(path, "thing")


@pytest.mark.parametrize("name", ["no.json", "", "a\0b", "x" * 300])
def test_a_path_that_cannot_be_read_is_wrong_use(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="thing"):
        read_json(tmp_path / name, "thing")


@pytest.mark.parametrize("found", [None, 2, True])
def test_another_schema_is_refused(found: object) -> None:
    with pytest.raises(UsageError, match=r"thing in f\.json"):
        check_schema({"schema": found}, "thing", 1, "f.json")


def test_half_a_surrogate_pair_is_kept(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.json", {"file": "caf\udce9"})
    assert read_json(path, "thing") == {"file": "caf\udce9"}
