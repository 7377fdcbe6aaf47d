"""Benchmark suites of what tfhet promises. `python -m benchmarks.NAME` runs one; they are not installed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from tfhet.cluster import environment
from tfhet.container import Cgroup
from tfhet.errors import unknown

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
T = TypeVar("T")


def child_environment() -> dict[str, str]:
    """Returns this process's environment, extended so that child processes import `benchmarks` from any folder."""
    env = dict(environment())
    paths = [str(ROOT), *env.get("PYTHONPATH", "").split(os.pathsep)]
    return {**env, "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, paths)))}


def prefer(cgroup: Cgroup) -> None:
    """Gives a control group the largest CPU weight, so that it gets its quota on a busy machine."""
    for folder in cgroup.folders:
        for name, largest in (("cpu.shares", "262144"), ("cpu.weight", "10000")):  # of cgroup version 1 and 2
            if (folder / name).exists():
                (folder / name).write_text(largest, encoding="ascii")


def chosen(option: str, names: str, known: Mapping[str, T]) -> list[T]:
    """Returns the values that an option such as `--flows example,tfhet` names, in its order, without repetitions.

    Raises:
        UsageError: An unknown name, or an empty list.
    """
    words = [word.strip() for word in names.split(",") if word.strip()]
    for word in words or [names]:
        if word not in known:
            unknown(option, word, known)
    return [known[word] for word in dict.fromkeys(words)]
