from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new folder with a short name: the paths of sockets have at most 108 characters."""
    return tmp_path_factory.mktemp("f")
