"""The table of suites that `tfhet bench` knows."""

from __future__ import annotations

import importlib

from tfhet import errors
from tfhet.bench.suite import Suite

_MODULES = {
    "stages": "tfhet.bench.stages",
    "faults": "benchmarks.faults.suite",
    "chaos": "benchmarks.chaos.suite",
    "launch": "benchmarks.launch.suite",
    "scaling": "benchmarks.scaling.suite",
    "limits": "benchmarks.limits.suite",
    "beside": "benchmarks.beside.suite",
    "cpu": "tfhet.bench.cpu",
    "transport": "tfhet.bench.transport",
    "cluster": "benchmarks.cluster.suite",
    "instances": "benchmarks.instances.suite",
    "timeline": "benchmarks.timeline.suite",
    "plan": "benchmarks.plan.suite",
}
"""Suite name to the module whose `SUITE` it is."""


def names() -> tuple[str, ...]:
    """The known suites, in the order in which they are listed."""
    return tuple(_MODULES)


def get(name: str) -> Suite:
    """The suite called `name`. Raises UsageError that lists the known ones."""
    if name not in _MODULES:
        errors.unknown("bench suite", name, _MODULES)
    suite = importlib.import_module(_MODULES[name]).SUITE
    if not isinstance(suite, Suite):
        raise TypeError(f"{_MODULES[name]}.SUITE is no Suite")
    return suite
