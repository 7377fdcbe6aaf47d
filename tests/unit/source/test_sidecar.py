from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfhet.errors import UsageError
from tfhet.source import Raw, Sidecar

SOUND = {"schema": 1, "features": {"image": Raw((4,)).as_json()}, "files": {"a.tfrecord": 3}, "classes": ["cat"]}


def test_a_directory_without_one_has_none(tmp_path: Path) -> None:
    assert Sidecar.read(tmp_path) is None


def test_what_is_written_is_read(tmp_path: Path) -> None:
    sidecar = Sidecar({"image": Raw((4,))}, {"a.tfrecord": 3}, ("cat",), {"seed": 1})
    sidecar.write(tmp_path)
    assert Sidecar.read(tmp_path) == sidecar


@pytest.mark.parametrize(
    "broken",
    [
        {"schema": 2},
        {"features": []},
        {"features": {"image": {"kind": "raw", "shape": ["x"]}}},
        {"features": {"image": {"kind": "raw", "shape": [4], "dtype": "no such"}}},
        {"files": {"a.tfrecord": "3"}},
        {"files": {"a.tfrecord": -1}},
        {"files": {"a.tfrecord": float("inf")}},
        {"classes": "cat"},
        {"classes": [1]},
        {"details": [1]},
    ],
    ids=str,
)
def test_a_part_of_the_wrong_kind_is_wrong_use(tmp_path: Path, broken: dict[str, Any]) -> None:
    (tmp_path / Sidecar.NAME).write_text(json.dumps({**SOUND, **broken}))
    with pytest.raises(UsageError, match=r"cannot understand .*tfhet\.json"):
        Sidecar.read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x80", b"[" * 100_000, b"9" * 5000], ids=["empty", "bytes", "deep", "long"])
def test_what_is_no_json_is_wrong_use(tmp_path: Path, content: bytes) -> None:
    (tmp_path / Sidecar.NAME).write_bytes(content)
    with pytest.raises(UsageError, match=r"cannot understand .*tfhet\.json"):
        Sidecar.read(tmp_path)


def test_a_folder_in_its_place_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / Sidecar.NAME).mkdir()
    with pytest.raises(UsageError, match=r"cannot read .*tfhet\.json"):
        Sidecar.read(tmp_path)
