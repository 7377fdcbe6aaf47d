"""The finished runs of a `benchmarks.cluster` that has not ended: a file beside its record, for `--resume`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cluster.run import point_from_json
from benchmarks.cluster_runs.point import Point
from tfhet.errors import DataError, UsageError, shown
from tfhet.record import json_value, read_json, write_json
from tfhet.schema import check_schema

SCHEMA = 1
KIND = "unfinished benchmark"


@dataclass
class Unfinished:
    """Steps and runs so far."""

    path: Path | None
    """None: nothing is kept."""
    settings: Mapping[str, Any]
    """The settings and the machine of these measurements; JSON values."""
    first_s: float | None = None
    """Seconds of a step of the first variant, with an accelerator that takes no time."""
    points: dict[str, Point] = field(default_factory=dict)
    """By `VARIANT-ROUND`."""
    failed: list[str] = field(default_factory=list)
    """Why runs failed that were made again."""

    @classmethod
    def at(cls, record: Path | None, settings: Mapping[str, Any], *, resume: bool) -> Unfinished:
        """With `resume`, reads what lies beside the record's file, where there is something; begins anew otherwise.

        Raises UsageError where that was measured with other settings, or there is nowhere to look, and DataError for a
        file that is none.
        """
        settings = json_value(settings)
        if record is None:
            if resume:
                raise UsageError("--resume goes on with what lies beside the record: name it, --json FILE")
            return cls(None, settings)
        path = record.with_name(f"{record.name}.unfinished")
        if not resume or not path.exists():
            return cls(path, settings)
        content = read_json(path, KIND)
        check_schema(content, KIND, SCHEMA, str(path))
        before = content.get("settings") or {}
        for name in {**settings, **before}:
            if settings.get(name) != before.get(name):
                raise UsageError(
                    f"--resume: the runs in {path} were made with {name} {shown(before.get(name))}, not"
                    f" {shown(settings.get(name))}: ask for the same, or leave --resume out to begin anew"
                )
        if not isinstance(runs := content.get("points"), dict) or not isinstance(content.get("first_s"), float):
            raise DataError(f"{path} is no {KIND}: remove it, or leave --resume out", str(path))
        points = {key: point_from_json(point, str(path)) for key, point in runs.items()}
        return cls(path, settings, content["first_s"], points, list(content.get("failed") or ()))

    def keep(self) -> None:
        """Writes it down."""
        if self.path is not None:
            points = {key: point.to_json() for key, point in self.points.items()}
            made = {"settings": self.settings, "first_s": self.first_s, "points": points, "failed": self.failed}
            write_json(self.path, {"schema": SCHEMA, **made})

    def remove(self) -> None:
        """All runs are in a record now."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
