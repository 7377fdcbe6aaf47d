"""A finding: one statement of advice, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """An observation, or something to do."""

    kind: str
    """Name of what was found, such as `python_inside`; it stays when the words change."""
    clause: str
    """The finding as part of a sentence: without a capital letter at its beginning and a full stop at its end."""
    saves_us: float = 0.0
    """CPU microseconds per example that following the advice saves at most; 0 when it saves something else."""

    def to_json(self) -> dict[str, Any]:
        saving = {"saves_us": self.saves_us} if self.saves_us else {}
        return {"kind": self.kind, "sentence": sentence(self), **saving}


def sentence(finding: Finding) -> str:
    return f"{finding.clause[:1].upper()}{finding.clause[1:]}."


def sentences(findings: Iterable[Finding]) -> list[str]:
    return [sentence(finding) for finding in findings]


def counted(count: int, noun: str) -> str:
    """A number of things in words: `1 map`, `2 maps`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
