"""Benchmark suites: what a suite is, and those that `tfhet bench` knows."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfhet.errors import unknown
from tfhet.events import Observer
from tfhet.record import Record

NAMES = ("stages",)
"""Suites of `tfhet bench`, each a module of `tfhet.bench`."""


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
    notes: Callable[[Record], Sequence[str]] = lambda record: ()
    """Lines below the printed table, such as what could not be measured."""
    is_kept: Callable[[Record], bool] = lambda record: True
    """Whether the promise that the suite tests is kept; the command fails otherwise."""


def suite_named(name: str) -> Suite:
    """Returns a suite of `tfhet bench`. Raises UsageError that lists the known ones."""
    if name not in NAMES:
        unknown("bench suite", name, NAMES)
    suite: Suite = importlib.import_module(f"tfhet.bench.{name}").SUITE
    return suite
