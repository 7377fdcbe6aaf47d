"""The suites that `tfhet bench` knows: those of the package, and those that other packages register.

A package registers a suite by an entry point of the group `tfhet.bench`: `name = "its.module:SUITE"`.
"""

from __future__ import annotations

import importlib.metadata

from tfhet import errors
from tfhet.bench.suite import Suite

GROUP = "tfhet.bench"
"""The entry point group of third-party suites."""
_OWN = {name: f"tfhet.bench.{name}:SUITE" for name in ("stages", "transport", "cpu")}


def names() -> tuple[str, ...]:
    """The known suites: the package's own first, then the registered ones by name."""
    return tuple(_entries())


def get(name: str) -> Suite:
    """The suite called `name`. Raises UsageError that lists the known ones, and for an entry point without a suite."""
    entries = _entries()
    if name not in entries:
        errors.unknown("bench suite", name, entries)
    suite = entries[name].load()
    if not isinstance(suite, Suite):
        raise errors.UsageError(f"bench suite {name!r}: {entries[name].value} is not a tfhet.bench.Suite")
    return suite


def _entries() -> dict[str, importlib.metadata.EntryPoint]:
    own = {name: importlib.metadata.EntryPoint(name, value, GROUP) for name, value in _OWN.items()}
    others = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: entry.name)
    return own | {entry.name: entry for entry in others if entry.name not in own}
