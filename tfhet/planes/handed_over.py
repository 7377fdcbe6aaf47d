"""Who takes the data of a training script before anything is done with them: `tfhet profile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_takers: list[Callable[[Any], None]] = []


def hand_over_to(take: Callable[[Any], None]) -> None:
    """From now on `tfhet.distribute` and `tfhet.batches` give their data for training to `take` first: a data set, a
    pipeline, or a loader."""
    _takers.append(take)


def hand_over(data: Any) -> None:
    """Gives data to whoever takes them; returns where no one does."""
    for take in _takers:
        take(data)
