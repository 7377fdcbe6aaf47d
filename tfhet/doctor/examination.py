"""All checks, and whether tfhet works with what they found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfhet.container import kernel
from tfhet.doctor import hardware, simulation, software
from tfhet.doctor.check import Check
from tfhet.record.machine import machine

SCHEMA = 1
COLUMNS = ("what", "is", "found", "needed for", "what to do")


@dataclass(frozen=True)
class Examination:
    """What was found."""

    checks: tuple[Check, ...]

    @property
    def is_sound(self) -> bool:
        """Whether all is there that tfhet needs in any case."""
        return not any(check.is_fatal for check in self.checks)

    @property
    def verdict(self) -> str:
        """In one line."""
        fatal = [f"{check.name} ({check.found}; {check.advice})" for check in self.checks if check.is_fatal]
        return f"tfhet does not work here: {'; '.join(fatal)}" if fatal else "tfhet works here."

    def sections(self) -> list[str]:
        return list(dict.fromkeys(check.section for check in self.checks))

    def rows(self, section: str) -> list[list[str]]:
        """As a table: name, status, what was found, what for, what to do where it is not ok."""
        return [
            [check.name, check.status.value, check.found, check.needed_for, check.advice]
            for check in self.checks
            if check.section == section
        ]

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "is_sound": self.is_sound, "checks": [check.to_json() for check in self.checks]}


def examine(env: Mapping[str, str], directory: Path | None = None) -> Examination:
    """Looks at everything; takes some seconds, because TensorFlow is loaded, and leaves nothing behind.

    directory: where a simulated cluster would keep what its hosts write; by default the folder for temporary files.
    """
    here = machine()
    loaded = software.load(env)
    return Examination(
        (
            *software.checks(loaded, len(here["gpus"])),
            *hardware.checks(here, loaded.gpus),
            *simulation.checks(kernel.probe(directory)),
        )
    )
