"""Benchmark suites, and the conditions of a run: commit, load, stolen CPU time, and memory settings."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tfhet.cluster import environment
from tfhet.errors import unknown
from tfhet.events import Observer
from tfhet.record import Record

NAMES = ("stages",)
"""Suites of `tfhet bench`, each a module of `tfhet.bench`."""
VARIABLES = ("GLIBC_TUNABLES", "LD_PRELOAD", "MALLOC_ARENA_MAX", "TFHET_NATIVE", "OMP_NUM_THREADS")
_GIT_S = 20.0


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
    """Lines below the printed table."""
    breaches: Callable[[Record], Sequence[str]] = lambda record: ()
    """Lines about each promise of the suite that the record breaks; the command fails if there are any."""

    def lines(self, record: Record) -> list[str]:
        """Returns the lines below the table: the notes, the cases that are `missing` or have `failed`, the breaches."""
        found = [
            f"{word}: {name}: {why}"
            for word in ("missing", "failed")
            for name, why in (record.details.get(word) or {}).items()
        ]
        return [*self.notes(record), *found, *self.breaches(record)]

    def is_kept(self, record: Record) -> bool:
        """Returns whether the record breaks no promise, and no case failed."""
        return not self.breaches(record) and not record.details.get("failed")


def suite_named(name: str) -> Suite:
    """Returns a suite of `tfhet bench`. Raises UsageError that lists the known ones."""
    if name not in NAMES:
        unknown("bench suite", name, NAMES)
    suite: Suite = importlib.import_module(f"tfhet.bench.{name}").SUITE
    return suite


@dataclass(frozen=True)
class Conditions:
    """The machine when a measurement begins."""

    load: float
    """Number of processes that wanted a CPU, in the mean of the last minute."""
    cpu_s: float
    """CPU seconds of the machine since it started, idle ones too."""
    stolen_s: float
    """Those in which it wanted to run and another virtual machine did."""

    @classmethod
    def now(cls) -> Conditions:
        times = psutil.cpu_times()
        return cls(os.getloadavg()[0], float(sum(times)), float(getattr(times, "steal", 0.0)))

    def until(self, end: Conditions) -> dict[str, Any]:
        """Returns what a record says of the time from this moment to `end`: `load_before`, `stolen_pct` of all CPU
        time, and `variables`, by name, that are set."""
        env, whole_s = environment(), end.cpu_s - self.cpu_s
        return {
            "load_before": round(self.load, 2),
            "stolen_pct": round(100.0 * (end.stolen_s - self.stolen_s) / whole_s, 2) if whole_s > 0 else 0.0,
            "variables": {name: env[name] for name in VARIABLES if name in env},
        }


def code() -> dict[str, Any]:
    """Returns the `commit` of the checkout and `is_clean`: whether all files are as committed. Empty without one."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return {}
    try:
        return {"commit": _git(root, "rev-parse", "HEAD"), "is_clean": not _git(root, "status", "--porcelain")}
    except (OSError, subprocess.SubprocessError):
        return {}


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=_GIT_S, check=True).stdout.strip()
