"""Hooks that get the training data of a script before it is read, for `tfhet profile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_hooks: list[Callable[[Any], None]] = []


def on_training_data(hook: Callable[[Any], None]) -> None:
    """Makes `tfhet.distribute` and `tfhet.batches` pass training data (a data set, pipeline or loader) to `hook`."""
    _hooks.append(hook)


def run_hooks(data: Any) -> None:
    for hook in _hooks:
        hook(data)
