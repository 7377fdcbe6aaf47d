"""The record of a benchmark: a flat table of figures, with the machine, the versions and the details."""

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
_FIELDS: Mapping[str, type] = {"details": dict, "machine": dict, "versions": dict, "command": list, "created": str}


@dataclass(frozen=True)
class Record:
    """The figures of one benchmark, the machine that measured them, and the command that measures them again."""

    name: str
    """Suite and selection: `stages.aws-cifar`."""
    figures: Mapping[str, Figure] = field(default_factory=dict)
    """Figures by name, for people and scripts alike."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """All other results, raw samples included, as JSON values."""
    command: Sequence[str] = ()
    """Command line that made the record."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """`record.machine()` of the machine that measured."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """`record.versions()`: version by package."""
    created: str = ""
    """Time at which the record was made: UTC, ISO 8601."""

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
        """A record that is made now, on this machine."""
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
        """The inverse of `to_json`. where: path for error messages.

        Raises UsageError for another schema version, and DataError for a field that is missing or of the wrong type.
        """
        document.check_schema(content, KIND, SCHEMA, where)
        figures = content.get("figures")
        if not isinstance(figures, Mapping) or not isinstance(content.get("name"), str):
            raise DataError(f"{KIND} {where}: `name` (text) and `figures` (an object) are needed", where or None)
        for name, kind in _FIELDS.items():
            given = content.get(name) or kind()
            if not isinstance(given, kind):
                raise DataError(f"{KIND} {where}: `{name}` is {shown(given)}, not {kind.__name__}", where or None)
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
