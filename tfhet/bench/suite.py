"""Benchmark suites: what a suite is, and those that `tfhet bench` knows.

Another package registers a suite by an entry point of the group `tfhet.bench`: `name = "its.module:SUITE"`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfhet.errors import UsageError, unknown
from tfhet.events import Observer
from tfhet.record import Record

GROUP = "tfhet.bench"
_OWN = {name: f"tfhet.bench.{name}:SUITE" for name in ("stages", "transport", "cpu")}


@dataclass(frozen=True)
class Suite:
    """One suite. Importing its module loads neither TensorFlow nor anything else that is slow."""

    name: str
    does: str
    """One line for the help."""
    options: Callable[[argparse.ArgumentParser], None]
    """Adds the suite's own options; `--json`, `--repeats` and `--warmup` are every suite's."""
    run: Callable[[argparse.Namespace, Observer, Sequence[str]], Record]
    """Measures: (options, observer, command line) -> record. Raises UsageError for options that do not fit."""
    draw: Callable[[Record, Path], Path] | None = None
    """Writes a picture of the record to a file and returns the file; with it the suite has the option `--plot`."""
    notes: Callable[[Record], Sequence[str]] = lambda record: ()
    """Lines below the printed table, such as what could not be measured."""
    is_kept: Callable[[Record], bool] = lambda record: True
    """Whether the promise that the suite tests is kept; the command fails otherwise."""


def suite_names() -> tuple[str, ...]:
    """Returns the names of all suites: the package's own first, then the registered ones in order."""
    return tuple(_entries())


def suite_named(name: str) -> Suite:
    """Returns a suite. Raises UsageError that lists the known ones, and for an entry point that is not a suite."""
    entries = _entries()
    if name not in entries:
        unknown("bench suite", name, entries)
    suite = entries[name].load()
    if not isinstance(suite, Suite):
        raise UsageError(f"bench suite {name!r}: {entries[name].value} is not a tfhet.bench.Suite")
    return suite


def _entries() -> dict[str, importlib.metadata.EntryPoint]:
    own = {name: importlib.metadata.EntryPoint(name, value, GROUP) for name, value in _OWN.items()}
    others = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: entry.name)
    return own | {entry.name: entry for entry in others if entry.name not in own}
