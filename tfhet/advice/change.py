"""The step at which a run begins to wait for its input, or after which it hardly waits any more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tfhet.record import StepTime

BOUND_PCT = 10.0
"""Share of the steps' time from which a block of steps is input-bound."""
BLOCKS, LEAST_BLOCK = 20, 8
"""Maximum number of blocks in which the change is looked for, and steps in each."""
FALLS = 3.0
"""Ratio by which the share of the wait must fall for a run that waits only at its beginning."""

LEAST_WAITS = 3.0
"""Ratio of the whole wait at the beginning to its longest wait, below which it is a stall. With several workers, one of
several steps waits for all of them."""


@dataclass(frozen=True)
class Change:
    """A change of the wait."""

    where: str
    """The first step after it, in words."""
    before_pct: float
    """Share of the steps' time that is wait, 0 to 100."""
    after_pct: float

    @classmethod
    def since(cls, steps: Sequence[StepTime]) -> Change | None:
        """Returns where the waiting began, if earlier steps did not wait."""
        size, shares = _blocks(steps)
        bound = [each >= BOUND_PCT for each in shares]
        first = bound.index(True) if True in bound else 0
        return cls._at(steps, first * size) if first and all(bound[first:]) else None

    @classmethod
    def until(cls, steps: Sequence[StepTime]) -> Change | None:
        """Returns where most of the waiting ended, if that is in the first half of the run."""
        size, shares = _blocks(steps)
        least = max(BOUND_PCT, shares[0] / 2) if shares else BOUND_PCT
        end = next((at for at, each in enumerate(shares) if each < least), 0)
        if not 0 < end <= len(shares) / 2:
            return None
        found, waits_s = cls._at(steps, end * size), [each.times * each.wait_s for each in steps[: end * size]]
        is_one_wait = max(waits_s) > sum(waits_s) / LEAST_WAITS
        return found if not is_one_wait and found.after_pct <= found.before_pct / FALLS else None

    @classmethod
    def _at(cls, steps: Sequence[StepTime], index: int) -> Change:
        number = steps[index].step
        where = f"step {number}" if number else f"measured step {index + 1}"
        return cls(where, _share(steps[:index]), _share(steps[index:]))


def _blocks(steps: Sequence[StepTime]) -> tuple[int, list[float]]:
    """Returns the number of steps in a block, and the share of the wait in each block."""
    size = max(LEAST_BLOCK, math.ceil(len(steps) / BLOCKS))
    blocks = [steps[at : at + size] for at in range(0, len(steps) - size + 1, size)]
    return size, [_share(block) for block in blocks]


def _share(steps: Sequence[StepTime]) -> float:
    whole_s = sum(each.times * each.dur_s for each in steps)
    return 100.0 * sum(each.times * each.wait_s for each in steps) / whole_s if whole_s else 0.0
