"""The proofs: benchmark suites of what tfhet promises. `python -m benchmarks.NAME` runs one; they are not installed."""

from __future__ import annotations

import os
from pathlib import Path

from tfhet.cluster import environment

ROOT = Path(__file__).resolve().parents[1]
"""The checkout, which holds this package."""


def child_environment() -> dict[str, str]:
    """This process's environment, in which a child process imports `benchmarks` whatever its working directory is."""
    env = dict(environment())
    paths = [str(ROOT), *env.get("PYTHONPATH", "").split(os.pathsep)]
    return {**env, "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, paths)))}
