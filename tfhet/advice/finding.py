"""A finding: one thing that advice says, as values. `words` turns it into a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

Fact = str | int | float | bool | None | tuple[str, ...]
"""A number, a name, or several names. None where it is not known."""


class Severity(Enum):
    """How much a finding matters."""

    FACT = "fact"
    """Evidence, for information."""
    ADVICE = "advice"
    """Something to do."""
    PROBLEM = "problem"
    """Time or money is being lost."""


@dataclass(frozen=True)
class Finding:
    """One thing that was found out, or should be done."""

    kind: str
    """A key of `words.TEMPLATES`."""
    severity: Severity = Severity.FACT
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """Numbers and names by the names that the template uses. The names of numbers end in their units."""
    about: Finding | None = None
    """A finding that this one explains or quotes."""
    saves_us: float = 0.0
    """CPU microseconds per example that following the advice saves at most; 0 when it saves something else."""

    def quoting(self, about: Finding | None) -> Finding:
        """The same finding with another one that it explains or quotes."""
        return replace(self, about=about)

    def saving(self, saves_us: float) -> Finding:
        """The same finding with the CPU microseconds per example that it saves at most."""
        return replace(self, saves_us=saves_us)

    def to_json(self) -> dict[str, Any]:
        """The finding in JSON values."""
        return {
            "kind": self.kind,
            "severity": self.severity.value,
            "facts": {name: list(fact) if isinstance(fact, tuple) else fact for name, fact in self.facts.items()},
            **({"about": self.about.to_json()} if self.about else {}),
            **({"saves_us": self.saves_us} if self.saves_us else {}),
        }


def fact(kind: str, /, **facts: Fact) -> Finding:
    """A finding for information."""
    return Finding(kind, Severity.FACT, facts)


def advice(kind: str, /, **facts: Fact) -> Finding:
    """A finding that says what to do."""
    return Finding(kind, Severity.ADVICE, facts)
