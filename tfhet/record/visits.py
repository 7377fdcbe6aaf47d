"""The account of the examples of an epoch, by their ids: how many came, how often, and how many did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Visits:
    """Numbers of the examples of one epoch: `before` + `once` + `repeated` + `bad` + `missing` is `expected`."""

    expected: int | None
    """Examples in the source; None where that is not known."""
    before: int
    """Ids that earlier runs of this training had seen of the epoch."""
    seen: int
    """Examples delivered in this run, repetitions included."""
    once: int
    """Ids delivered exactly once, in this run, and not before."""
    repeated: int
    """Ids delivered more than once, or again."""
    bad: int
    """Ids never delivered because their records cannot be read."""
    missing: int | None
    """Ids never delivered for an unknown reason; None where the number of examples is not known."""
    rereads: int
    """Number of times that the rest of the epoch was read: 0 when nothing was lost on the way."""

    @classmethod
    def total(cls, visits: Sequence[Visits]) -> Visits:
        """The sums over several passes, at least one."""
        columns = {item.name: [getattr(one, item.name) for one in visits] for item in fields(cls)}
        sums: dict[str, Any] = {name: None if None in values else sum(values) for name, values in columns.items()}
        return cls(**sums)
