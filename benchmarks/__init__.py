"""The proofs: benchmark suites of what tfhet promises. `python -m benchmarks.NAME` runs one; they are not installed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from tfhet.cluster import environment
from tfhet.container import Cgroup
from tfhet.errors import unknown

ROOT = Path(__file__).resolve().parents[1]
"""The checkout, which holds this package."""
ENDS_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM")
"""The words before a command that gets SIGTERM when its parent dies."""
T = TypeVar("T")


def child_environment() -> dict[str, str]:
    """This process's environment, in which a child process imports `benchmarks` whatever its working directory is."""
    env = dict(environment())
    paths = [str(ROOT), *env.get("PYTHONPATH", "").split(os.pathsep)]
    return {**env, "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, paths)))}


def prefer(cgroup: Cgroup) -> None:
    """Gives a control group the greatest weight for CPU, so that it gets its quota on a busy machine."""
    for folder in cgroup.folders:
        for name, greatest in (("cpu.shares", "262144"), ("cpu.weight", "10000")):  # of cgroup version 1 and 2
            if (folder / name).exists():
                (folder / name).write_text(greatest, encoding="ascii")


def chosen(option: str, names: str, known: Mapping[str, T]) -> list[T]:
    """Returns the values that an option such as `--flows example,tfhet` names, in its order, each once.

    Raises UsageError for an unknown name, and for an empty list.
    """
    words = [word.strip() for word in names.split(",") if word.strip()]
    for word in words or [names]:
        if word not in known:
            unknown(option, word, known)
    return [known[word] for word in dict.fromkeys(words)]
