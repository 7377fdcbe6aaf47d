"""The record that a benchmark leaves: one flat table of figures beside the machine, the versions and the details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tfhet import clock as clocks
from tfhet.errors import DataError, shown
from tfhet.record import document
from tfhet.record.figure import Figure
from tfhet.record.machine import machine
from tfhet.versions import versions

SCHEMA = 1
KIND = "benchmark record"
_PARTS: Mapping[str, type] = {"details": dict, "machine": dict, "versions": dict, "command": list, "created": str}


@dataclass(frozen=True)
class Record:
    """What one benchmark measured, on what machine, and by which command it can be measured again."""

    name: str
    """The suite, with what it was asked for: `stages.aws-cifar`."""
    figures: Mapping[str, Figure] = field(default_factory=dict)
    """The flat table that people and scripts read alike, by figure name."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Everything else, raw samples included; JSON values."""
    command: Sequence[str] = ()
    """The command line that made it."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """`record.machine()` of the machine that ran it."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """`record.versions()`: package name to version."""
    created: str = ""
    """When: UTC, ISO 8601."""

    @classmethod
    def of(
        cls,
        name: str,
        figures: Mapping[str, Figure],
        *,
        details: Mapping[str, Any] | None = None,
        command: Sequence[str] = (),
        clock: clocks.Clock = clocks.SYSTEM,
    ) -> Record:
        """A record of this machine and this moment."""
        created = datetime.fromtimestamp(clock.wall(), timezone.utc).isoformat(timespec="seconds")
        return cls(name, dict(figures), dict(details or {}), tuple(command), machine(), versions(), created)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "name": self.name,
            "created": self.created,
            "machine": document.plain(self.machine),
            "versions": document.plain(self.versions),
            "command": list(self.command),
            "figures": {name: document.plain(figure.to_json()) for name, figure in self.figures.items()},
            "details": document.plain(self.details),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str = "") -> Record:
        """The inverse of `to_json`; `where` (a path) goes into the messages.

        Raises UsageError for another schema version and DataError for a part that is missing or of the wrong kind.
        """
        document.check_schema(content, KIND, SCHEMA, where)
        figures = content.get("figures")
        if not isinstance(figures, Mapping) or not isinstance(content.get("name"), str):
            raise DataError(f"{KIND} {where}: `name` (text) and `figures` (an object) are needed", where or None)
        for part, kind in _PARTS.items():
            given = content.get(part) or kind()
            if not isinstance(given, kind):
                raise DataError(f"{KIND} {where}: `{part}` is {shown(given)}, no {kind.__name__}", where or None)
        return cls(
            name=content["name"],
            figures={name: Figure.from_json(figure, name) for name, figure in figures.items()},
            details=content.get("details") or {},
            command=tuple(content.get("command") or ()),
            machine=content.get("machine") or {},
            versions=content.get("versions") or {},
            created=content.get("created") or "",
        )

    def write(self, path: Path | str) -> Path:
        """Writes the record as JSON, whole or not at all; makes the folder."""
        return document.write(Path(path), self.to_json())

    @classmethod
    def read(cls, path: Path | str) -> Record:
        """Reads what `write` wrote. Raises UsageError (no file, other schema) or DataError (not a record)."""
        return cls.from_json(document.read(Path(path), KIND), str(path))
