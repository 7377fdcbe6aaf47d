"""Compiled ops for what plain TensorFlow does slowly; built on first use, never needed."""

from __future__ import annotations

from typing import Any

from tfhet.native.kernels import SWITCH, built, names, permitted

__all__ = ["SWITCH", "available", "built", "load_all", "names", "ops", "permitted"]


def __getattr__(name: str) -> Any:
    # The library needs TensorFlow; who only asks what was built before does not.
    if name not in ("available", "load_all", "ops"):
        raise AttributeError(f"module 'tfhet.native' has no attribute {name!r}")
    from tfhet.native import library

    return getattr(library, name)
