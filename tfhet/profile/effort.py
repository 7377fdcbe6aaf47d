"""How long a profile measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    budget_s: float = 30.0
    """Approximate CPU seconds of all rounds, above 0."""
    repeats: int = 5
    """Measured rounds after a warm-up round, at least 1."""


DEFAULT = Effort()
