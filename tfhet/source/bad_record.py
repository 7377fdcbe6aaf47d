"""A place where data are lost."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BadRecord:
    """A record that cannot be used, and what is lost with it. `str` gives one line for people."""

    file: str
    """Path of the file; "" in a source without files."""
    offset: int
    """Byte at which the record starts."""
    split: int
    """Split that the record belongs to, from 0."""
    position: int
    """Position of the record in its split, from 0."""
    reason: str
    """What is wrong with the record, for people."""
    examples: int | None = 1
    """Number of examples that are lost: more than one where nothing after the record can be reached; None: unknown."""

    def __str__(self) -> str:
        place = f"{self.file} at byte {self.offset}" if self.file else f"split {self.split}, position {self.position}"
        return f"{place}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
