"""Modules that the jobs of Ray need beside the checkout."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

from tfhet.errors import UsageError


def require(*modules: str) -> None:
    """Raises UsageError that names the modules which this Python, which also runs the jobs, does not find."""
    refuse([name for name in modules if importlib.util.find_spec(name) is None])


def refuse(missing: Sequence[str]) -> None:
    """Raises UsageError where modules are missing."""
    if missing:
        raise UsageError(
            f"{sys.executable} does not find {', '.join(missing)}: run the suite with a Python that has what "
            "tests/environments/ray.lock lists (benchmarks/ray/README.md says how to make one)"
        )
