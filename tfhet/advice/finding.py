"""A finding: one statement of advice, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    kind: str
    """Stable name, such as `python_inside`."""
    clause: str
    """The sentence without capital letter and full stop."""
    saves_us: float = 0.0
    """CPU microseconds per example that the change saves at most; 0 if it saves something else."""

    def to_json(self) -> dict[str, Any]:
        saving = {"saves_us": self.saves_us} if self.saves_us else {}
        return {"kind": self.kind, "sentence": sentence(self), **saving}


def sentence(finding: Finding) -> str:
    return f"{finding.clause[:1].upper()}{finding.clause[1:]}."


def sentences(findings: Iterable[Finding]) -> list[str]:
    return [sentence(finding) for finding in findings]


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
