"""One thing to be measured: prepared once, run many times, counted in units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfhet.errors import UsageError


def _nothing() -> None:
    return None


def _same(state: Any) -> Any:
    return state


@dataclass(frozen=True)
class Case:
    """What the harness times is `run(begin(state))` without `begin`, with the state that `prepare()` made."""

    name: str
    """How tables and records call it."""
    run: Callable[[Any], object]
    """Does the work once, all `units` of it; what it returns is ignored. It raises when the work was not done."""
    units: int = 1
    """How many units one run does."""
    unit: str = "run"
    """What is counted: `image`, `batch`, `run`."""
    prepare: Callable[[], Any] = _nothing
    """Makes the state, untimed, before the first round: opens files, traces graphs."""
    close: Callable[[Any], object] | None = None
    """Undoes `prepare`, untimed, after the last round, also after an error."""
    begin: Callable[[Any], Any] = _same
    """Before each run, untimed: makes of the state what it takes, such as the iterator of a data set, whose graph
    TensorFlow optimizes anew for each (150 ms, once an epoch in a training)."""

    def __post_init__(self) -> None:
        if self.units < 1:
            raise UsageError(f"bench case {self.name!r}: units is {self.units}; a run does at least one {self.unit}")
