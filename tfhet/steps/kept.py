"""The steps of a rank as they are kept for the record of its run: 64 bytes each, since a job may take millions.

kept = KeptSteps()
kept.append(StepTime(dur_s=0.2, wait_s=0.1))
kept[0].compute_s, kept.column("wait_s")
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any, overload

from tfhet.record import StepTime

_COLUMNS = ("dur_s", "wait_s", "examples", "copy_s", "allreduce_s", "at_s", "step", "epoch")
_COUNTS = ("examples", "step", "epoch")


class KeptSteps(Sequence[StepTime]):
    """Steps of one rank, without its number and its host. An `allreduce_s` of None is NaN in its column."""

    def __init__(self) -> None:
        self._columns = {name: array("d") for name in _COLUMNS}

    def append(self, step: StepTime) -> None:
        for name, column in self._columns.items():
            value = getattr(step, name)
            column.append(math.nan if value is None else value)

    def column(self, name: str) -> array[float]:
        """The values of one field, of all steps."""
        return self._columns[name]

    def __len__(self) -> int:
        return len(self._columns["epoch"])  # the last one that `append` extends

    @overload
    def __getitem__(self, at: int) -> StepTime: ...

    @overload
    def __getitem__(self, at: slice) -> list[StepTime]: ...

    def __getitem__(self, at: int | slice) -> StepTime | list[StepTime]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        values: dict[str, Any] = {name: column[at] for name, column in self._columns.items()}
        whole = {name: int(value) for name, value in values.items() if name in _COUNTS and value.is_integer()}
        alone = {"allreduce_s": None} if math.isnan(values["allreduce_s"]) else {}
        return StepTime(**values | whole | alone)
