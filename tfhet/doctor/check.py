"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Status(str, Enum):
    """How it is."""

    OK = "ok"
    LIMITED = "limited"
    """There, and not all that it could be."""
    MISSING = "missing"
    """Not there, or broken."""
    UNKNOWN = "not tried"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at, as people read it."""

    section: str
    name: str
    status: Status
    found: str
    """A version, a number, or what is wrong."""
    needed_for: str
    what_to_do: str = ""
    """Where it is not ok. See `advice`."""
    is_needed: bool = False
    """Whether nothing of tfhet works without it."""

    @property
    def is_fatal(self) -> bool:
        return self.is_needed and self.status is Status.MISSING

    @property
    def advice(self) -> str:
        """What to do; "" where all is well."""
        return "" if self.status is Status.OK else self.what_to_do

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "status": self.status.value, "what_to_do": self.advice}
