"""What one host does from start to exit."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfhet.launch.entry import main
    from tfhet.launch.settings import LaunchSettings

__all__ = ["LaunchSettings", "main"]

# Loaded when asked for: PID 1 of a container (init.py) has to be there at once, and to stay small.
_HOME = {"LaunchSettings": "settings", "main": "entry"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tfhet.launch' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tfhet.launch.{_HOME[name]}"), name)
