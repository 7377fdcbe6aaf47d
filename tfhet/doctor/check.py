"""One thing that the doctor examined, and how it came out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Status(str, Enum):
    """Result of one check."""

    OK = "ok"
    LIMITED = "limited"
    """Works, with a limitation."""
    MISSING = "missing"
    """Not installed, or broken."""
    WRONG = "wrong"
    """Will fail."""
    UNKNOWN = "not tried"


@dataclass(frozen=True)
class Check:
    """One thing that was examined, as people read it."""

    section: str
    name: str
    status: Status
    found: str
    """A version, a number, or what is wrong."""
    why: str
    """Its purpose, or the consequence of what was found."""
    what_to_do: str = ""
    """Empty where the status is ok."""
    is_needed: bool = False
    """Whether nothing of tfhet works without it."""
    issue: str = ""
    """Issue on GitHub that reports the same, as OWNER/REPOSITORY#NUMBER."""

    @property
    def is_fatal(self) -> bool:
        return self.status is Status.WRONG or (self.is_needed and self.status is Status.MISSING)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "status": self.status.value}
