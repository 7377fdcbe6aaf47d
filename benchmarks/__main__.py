"""`python -m benchmarks` lists the suites."""

from __future__ import annotations

import importlib
from pathlib import Path

from tfhet.bench import Suite


def suites() -> dict[str, Suite]:
    """Returns every suite by the name of its folder."""
    names = sorted(path.parent.name for path in Path(__file__).parent.glob("*/suite.py"))
    return {name: importlib.import_module(f"benchmarks.{name}.suite").SUITE for name in names}


if __name__ == "__main__":
    for name, suite in suites().items():
        print(f"  python -m benchmarks.{name:<12}{suite.does}")
