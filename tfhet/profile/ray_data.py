"""The profile of a Ray data set by operator, run by Ray on one CPU.

Every round runs each prefix of the chain of operators on the same inputs, so the operators of one task can be
distinguished, and a machine that becomes slower slows all alike. The CPU time of a part is its tasks', counted by Ray.
Ray's own CPU time (its processes, scheduling and reading in the rank) is separate: a cost of moving batches.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from inspect import ismodule
from typing import Any

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import UsageError
from tfhet.events import Event, Observer, ignore
from tfhet.planes.ray import Execution, alone, executed, is_dataset, prefixes
from tfhet.profile.effort import Effort
from tfhet.profile.result import RAY, Cost, Profile

PROBE_CPU_S = 0.5
"""Minimum CPU seconds, with Ray's own, of the run that estimates the cost of an input."""

Execute = Callable[[Any, int], Execution]


def names_ray(function: Callable[..., Any]) -> bool:
    """Whether a function may make a Ray data set: it or its module names Ray, which is installed."""
    code, known = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    named = [*known, *(code.co_names + code.co_varnames if code else ())]
    named += [str(getattr(each, "__name__" if ismodule(each) else "__module__", "")) for each in known.values()]
    is_named = any(name == "ray" or name.startswith("ray.") for name in named)
    return is_named and ("ray" in sys.modules or find_spec("ray") is not None)


@dataclass
class _Prefix:
    name: str
    data: Any
    runs: list[Execution] = field(default_factory=list)


def measure_ray(
    make: Callable[[], Any],
    effort: Effort,
    *,
    batch_size: int = 0,
    otherwise: Callable[[], Profile] | None = None,
    observer: Observer = ignore,
) -> Profile:
    """Returns the profile of the Ray data set that a function makes. batch_size: rows of a batch; 0 if a block is a
    batch. otherwise: profiles another result, if it is allowed. Raises UsageError if the data set has no rows, or an
    operator needs more than one CPU."""
    with alone():
        data = make()
        if is_dataset(data):
            return measure_chain(prefixes(data), executed, effort, batch_size=batch_size, observer=observer)
    if otherwise is None:
        raise UsageError(f"a {type(data).__name__}; wanted a ray.data.Dataset")
    return otherwise()


def measure_chain(
    chain: Sequence[tuple[str, Any]],
    execute: Execute,
    effort: Effort,
    *,
    batch_size: int = 0,
    observer: Observer = ignore,
    clock: Clock = SYSTEM,
) -> Profile:
    """Returns the profile of a chain: each operator's name and the data set that ends with it. execute: runs a data set
    on at most a number of its inputs."""
    names = _different([name for name, _ in chain])
    parts = [_Prefix(name, data) for name, (_, data) in zip(names, chain, strict=True)]
    inputs = _inputs(parts, execute, effort)
    observer(Event("profile.started", clock.wall(), {"parts": [part.name for part in parts], "inputs": inputs}))
    for turn in range(effort.repeats + 1):
        gc.collect()
        for part in parts:
            part.runs.append(execute(part.data, inputs))
        observer(Event("profile.round", clock.wall(), {"done": turn, "total": effort.repeats}))
    for part in parts:  # without the first round, which is for warm-up
        del part.runs[0]
    whole = parts[-1].runs
    costs = [_cost(part, whole) for part in parts]
    costs[-1] = replace(costs[-1], examples=batch_size or max(1, round(whole[0].rows / whole[0].blocks)))
    beside = {
        "reader": tuple(1e6 * one.driver_cpu_s / one.rows for one in whole),
        "server": tuple(1e6 * max(0.0, one.node_cpu_s - one.tasks_cpu_s) / one.rows for one in whole),
    }
    return Profile("ray", tuple(costs), whole[0].rows, beside)


def _different(names: Sequence[str]) -> list[str]:
    return [f"{name} ({names[:at].count(name) + 1})" if name in names[:at] else name for at, name in enumerate(names)]


def _cost(part: _Prefix, whole: Sequence[Execution]) -> Cost:
    """Returns a part's cost per example of the whole."""
    cumulative_us = tuple(1e6 * one.tasks_cpu_s / end.rows for one, end in zip(part.runs, whole, strict=True))
    last = part.runs[-1]
    return Cost(part.name, cumulative_us, (), round(last.bytes / max(1, last.rows)), last.dtype, 1, RAY)


def _inputs(parts: Sequence[_Prefix], execute: Execute, effort: Effort) -> int:
    """Returns the number of inputs of a run with which all rounds take about the budget."""
    data, inputs, least = parts[-1].data, 1, 0
    execute(data, inputs)  # processes of tasks start and import
    while True:
        probe = execute(data, inputs)
        least = least or (inputs if probe.rows else 0)
        spent_s = probe.driver_cpu_s + max(probe.node_cpu_s, probe.tasks_cpu_s)
        if inputs >= probe.inputs or (least and spent_s >= PROBE_CPU_S):
            break
        inputs *= 2
    if not least:
        raise UsageError("the Ray data set has no rows: a profile needs some")
    a_round_s = spent_s / min(inputs, probe.inputs) * (len(parts) / 2 + 0.5)
    wanted = int(effort.budget_s / (effort.repeats + 1) / max(a_round_s, 1e-6))
    return max(least, min(probe.inputs, wanted))
