from __future__ import annotations

import subprocess
import sys

import pytest

from tfhet.errors import UsageError
from tfhet.telemetry import ScalarFile


def test_without_tensorboard_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    with pytest.raises(UsageError, match="pip install tensorboard"):
        ScalarFile(tmp_path, 10.0, "rank-0")
    assert not list(tmp_path.rglob("*tfevents*"))


def test_tensorflow_is_not_loaded_for_it(tmp_path):
    program = (
        "import sys; from pathlib import Path; from tfhet.telemetry import ScalarFile\n"
        f"ScalarFile(Path({str(tmp_path)!r}), 10.0, 'rank-0').add(11.0, 1, {{'step/ms': 86.1}})\n"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == 0
    assert list(tmp_path.rglob("*tfevents*"))
