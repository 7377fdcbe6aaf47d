"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Status(str, Enum):
    """How it is."""

    OK = "ok"
    LIMITED = "limited"
    """There, or working, and not all that it could be."""
    MISSING = "missing"
    """Not there, or broken."""
    WRONG = "wrong"
    """What was asked about will fail."""
    UNKNOWN = "not tried"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at, as people read it."""

    section: str
    name: str
    status: Status
    found: str
    """A version, a number, or what is wrong."""
    why: str
    """What it is needed for, or what comes of it."""
    what_to_do: str = ""
    """Where it is not ok. See `advice`."""
    is_needed: bool = False
    """Whether nothing of tfhet works without it."""
    issue: str = ""
    """Where others met it: OWNER/REPOSITORY#NUMBER on GitHub."""

    @property
    def is_fatal(self) -> bool:
        return self.status is Status.WRONG or (self.is_needed and self.status is Status.MISSING)

    @property
    def advice(self) -> str:
        """What to do; "" where all is well."""
        return "" if self.status is Status.OK else self.what_to_do

    @property
    def reason(self) -> str:
        """Why it matters, with the issue where it is not ok."""
        return f"{self.why} ({self.issue})" if self.issue and self.status is not Status.OK else self.why

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "status": self.status.value, "what_to_do": self.advice}
