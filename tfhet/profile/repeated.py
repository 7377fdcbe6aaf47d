"""The rounds of a profile: each round measures all parts, so a machine that becomes slower slows all alike."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tfhet.clock import Clock
from tfhet.errors import UsageError
from tfhet.events import Event, Observer
from tfhet.profile.effort import Effort

PROBE_CPU_S = 0.1
"""Minimum CPU seconds of the run that estimates the cost of an example."""
MOST_EXAMPLES = 1 << 20
"""Maximum number of examples of that run."""


class PartTime(NamedTuple):
    """CPU microseconds per example of a part in one round."""

    cumulative_us: float
    """The pipeline up to and including the part."""
    alone_us: float | None = None


class Samples(NamedTuple):
    """The fields of a `Cost` that rounds measure, one value for each round."""

    cumulative_us: tuple[float, ...]
    alone_us: tuple[float, ...]


Run = Callable[[int], Sequence[PartTime]]
"""Measures all parts once, over about so many examples."""


def repeated(
    names: Sequence[str], run: Run, examples: int, effort: Effort, observer: Observer, clock: Clock
) -> list[Samples]:
    """Returns the samples of the parts with these names. The first round is for warm-up, without samples. The
    observer gets the events `profile.started` (parts, examples) and `profile.round` (done, total). Raises UsageError if
    the effort is out of range."""
    if effort.repeats < 1 or effort.budget_s <= 0:
        given = f"{effort.repeats} and {effort.budget_s} s"
        raise UsageError(f"a profile needs at least 1 round and some time, not {given}")
    observer(Event("profile.started", clock.wall(), {"parts": list(names), "examples": examples}))
    rounds: list[Sequence[PartTime]] = []
    for turn in range(effort.repeats + 1):
        gc.collect()
        rounds.append(run(examples))
        observer(Event("profile.round", clock.wall(), {"done": turn, "total": effort.repeats}))
    parts = zip(*rounds[1:], strict=True)
    return [
        Samples(tuple(time.cumulative_us for time in part), tuple(t.alone_us for t in part if t.alone_us is not None))
        for part in parts
    ]


def affordable(run: Run, least: int, effort: Effort, clock: Clock) -> int:
    """Returns the number of examples of a run with which all rounds take about the budget, at least `least`."""
    count = least
    while True:
        began_s = clock.cpu()
        run(count)
        spent_s = clock.cpu() - began_s
        if spent_s >= PROBE_CPU_S or count >= MOST_EXAMPLES:
            break
        count *= 2
    return max(least, int(effort.budget_s / (effort.repeats + 1) * count / max(spent_s, 1e-9)))
