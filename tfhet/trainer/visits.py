"""How many examples of an epoch were seen: once, more than once, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tfhet.trainer.ledger import NOTHING


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
    def of(
        cls,
        ids: np.ndarray,
        expected: int | None,
        before: np.ndarray = NOTHING,
        bad: np.ndarray = NOTHING,
        rereads: int = 0,
    ) -> Visits:
        """Counts the int64 `ids` of this run, those of earlier ones, and those known to be bad."""
        earlier = np.unique(before)
        found, counts = np.unique(ids, return_counts=True)
        again = (counts > 1) | np.isin(found, earlier, assume_unique=True)
        known = np.union1d(found, earlier)
        lost = len(np.setdiff1d(bad, known))
        return cls(
            expected=expected,
            before=int((~np.isin(earlier, found[again], assume_unique=True)).sum()),
            seen=len(ids),
            once=int((~again).sum()),
            repeated=int(again.sum()),
            bad=lost,
            missing=None if expected is None else expected - len(known) - lost,
            rereads=rereads,
        )

    @classmethod
    def total(cls, visits: Sequence[Visits]) -> Visits:
        """The sums over several passes, at least one."""
        columns = {item.name: [getattr(one, item.name) for one in visits] for item in fields(cls)}
        sums: dict[str, Any] = {name: None if None in values else sum(values) for name, values in columns.items()}
        return cls(**sums)
