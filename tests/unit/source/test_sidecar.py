from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfhet.errors import UsageError
from tfhet.source import Raw, Sidecar

SOUND = {"schema": 1, "features": {"image": Raw((4,)).as_json()}, "files": {"a.tfrecord": 3}, "classes": ["cat"]}


def test_sidecar_is_read_as_written(tmp_path: Path) -> None:
    sidecar = Sidecar({"image": Raw((4,))}, {"a.tfrecord": 3}, ("cat",), {"seed": 1})
    assert Sidecar.read(tmp_path) is None
    sidecar.write(tmp_path)
    assert Sidecar.read(tmp_path) == sidecar
    assert json.loads((tmp_path / Sidecar.NAME).read_text())["schema"] == 1


@pytest.mark.parametrize(
    "broken",
    [
        {"schema": 2},
        {"features": {"image": {"kind": "hologram"}}},
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
def test_wrong_parts_are_refused(tmp_path: Path, broken: dict[str, Any]) -> None:
    (tmp_path / Sidecar.NAME).write_text(json.dumps({**SOUND, **broken}))
    with pytest.raises(UsageError, match=r"tfhet\.json"):
        Sidecar.read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x80", b"[" * 100_000, b"9" * 5000], ids=["empty", "bytes", "deep", "long"])
def test_file_that_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / Sidecar.NAME).write_bytes(content)
    with pytest.raises(UsageError, match=r"tfhet\.json"):
        Sidecar.read(tmp_path)


def test_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / Sidecar.NAME).mkdir()
    with pytest.raises(UsageError, match=r"tfhet\.json"):
        Sidecar.read(tmp_path)
