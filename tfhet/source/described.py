"""Sources as JSON values, from which other hosts make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfhet import source as sources
from tfhet.errors import UsageError
from tfhet.source.source import IndexedSource

SOURCES = (
    *("ImageFolder", "FileList", "TFRecordSource", "TarSource", "ParquetSource", "SyntheticSource"),
    *("Mixed", "Balanced"),
)
"""Classes of `tfhet.source` that other hosts can make."""


def source_as_json(source: IndexedSource) -> dict[str, Any]:
    """Returns a source as JSON values. Raises UsageError for one that only this process has."""
    kind, described = type(source).__name__, source.as_json()
    if kind not in SOURCES:
        raise UsageError(f"data hosts cannot make a {kind} of this process; sources for them: {', '.join(SOURCES)}")
    return {"kind": kind, **described}


def source_from_json(document: Mapping[str, Any]) -> Any:
    """Makes the source of `source_as_json`."""
    values = dict(document)
    kind = values.pop("kind")
    if kind not in SOURCES:
        raise UsageError(f"unknown source {kind!r}; known: {', '.join(SOURCES)}")
    return getattr(sources, kind).from_json(values)
