"""Benchmark suites: what a suite is, and those that `tfhet bench` knows."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfhet.errors import unknown
from tfhet.events import Observer
from tfhet.record import Record

NAMES = ("stages", "transport", "cpu")
"""Suites of `tfhet bench`, each a module of this room."""
CHAIN = tuple(f"tfhet/{room}" for room in ("native", "source", "stages", "placement"))
"""The code that makes batches of files: `Suite.measures` of what runs chains of stages."""
JOB = (
    *CHAIN,
    *(f"tfhet/{room}" for room in ("cluster", "control", "messages", "strategies", "steps", "planes", "trainer")),
    *(f"tfhet/{room}" for room in ("launch", "container", "simulate")),
)
"""The code of a whole job on a simulated cluster."""
PLAN = (
    "tfhet/plan",
    *(f"tfhet/planes/{file}" for file in ("carrier.py", "ray/costs.py", "tf_service/costs.py")),
)
"""The code that predicts one, with the costs that it assumes."""


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
    measures: Sequence[str] = ()
    """Folders and files whose code the figures depend on, by path below `tfhet.bench.code.ROOT`: a record is old once
    they have changed."""


def suite_named(name: str) -> Suite:
    """Returns a suite of `tfhet bench`. Raises UsageError that lists the known ones."""
    if name not in NAMES:
        unknown("bench suite", name, NAMES)
    suite: Suite = importlib.import_module(f"tfhet.bench.{name}").SUITE
    return suite
