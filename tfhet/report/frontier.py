"""The section of a plan: its clusters by speed and money, and what it projects beside what runs measured.

The plan is read as JSON (`tfhet plan --json FILE`), so that a page can be made long after the plan.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.advice import Finding, choice_of
from tfhet.errors import DataError
from tfhet.record import Interval, RunSummary, Spread, check_schema
from tfhet.report import numbers
from tfhet.report.chart import MOST, Axis, Tick, nice_ticks

KIND, SCHEMA = "plan", 1
DRAWN = 300
"""Maximum number of clusters drawn; those on the frontier and those with a number always are."""


@dataclass(frozen=True)
class PlannedCluster:
    """A cluster that the plan considered."""

    text: str
    """`ml.p4d.24xlarge+2*ml.c5.18xlarge`."""
    hosts: Mapping[str, int]
    """Number of hosts by `dnn TYPE` and `data TYPE`."""
    step_ms: Interval
    examples_per_s: Interval | None
    usd_per_hour: float | None
    usd_per_million: Interval | None
    """USD per million examples; None where a price is not known."""
    binding: str
    """The resource that limits it."""
    cut: str
    """The part after which the pipeline is cut, and which hosts run what is before it."""
    is_on_frontier: bool
    fits: bool
    """Whether it keeps the limits that were asked for."""

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> PlannedCluster:
        """The cluster in a JSON object. Raises KeyError, TypeError or ValueError for anything else."""
        cluster, layout, usd_per_hour = content["cluster"], content.get("layout") or {}, content.get("usd_per_hour")
        groups = ((role, int(cluster[f"{role}_hosts"])) for role in ("dnn", "data"))
        speed, usd = content.get("examples_per_s"), content.get("usd_per_million_examples")
        return cls(
            text=str(cluster["text"]),
            hosts={f"{role} {cluster[role]}": count for role, count in groups if count},
            step_ms=_interval(content["step_ms"]),
            examples_per_s=_interval(speed) if speed else None,
            usd_per_hour=None if usd_per_hour is None else float(usd_per_hour),
            usd_per_million=_interval(usd) if usd else None,
            binding=str(content.get("binding") or ""),
            cut=", ".join(str(layout[key]) for key in ("behind", "where") if layout.get(key)),
            is_on_frontier=bool(content.get("on_frontier")),
            fits=bool(content.get("fits", True)),
        )


def _interval(content: Mapping[str, Any]) -> Interval:
    return Interval(*(float(content[end]) for end in ("value", "low", "high")))


@dataclass(frozen=True)
class PlanView:
    """The plan as a page shows it."""

    candidates: Sequence[PlannedCluster]
    roles: Mapping[int, str]
    """`chosen`, `runner-up`, `today`, by index of the candidate."""
    decision: Sequence[str]
    """Sentences in the order in which to act."""
    notes: Sequence[str]

    @property
    def chosen(self) -> int | None:
        """Index of the chosen candidate; None where no cluster keeps the limits."""
        return next((index for index, role in self.roles.items() if "chosen" in role), None)

    @property
    def choice(self) -> Finding:
        """The plan's choice as a finding."""
        if self.chosen is None:
            return choice_of(None)
        one, is_today = self.candidates[self.chosen], "today" in self.roles[self.chosen]
        return choice_of(one.text, binding=one.binding, has_data=len(one.hosts) > 1, is_today=is_today)

    @property
    def numbered(self) -> list[int]:
        """The candidates that have a number in the plot and a line in the table: the roles, then the frontier."""
        frontier = [index for index, one in enumerate(self.candidates) if one.is_on_frontier]
        return list(dict.fromkeys([*self.roles, *frontier]))


def read_plan(content: Mapping[str, Any], where: str = "") -> PlanView:
    """The plan in a JSON object; `where` (a path) goes into the messages.

    Raises UsageError for another schema version and DataError for anything but a plan.
    """
    check_schema(content, KIND, SCHEMA, where)
    try:
        candidates = tuple(PlannedCluster.read(one) for one in content["candidates"])
        roles: dict[int, str] = {}
        for field, role in (("chosen", "chosen"), ("runner_up", "runner-up"), ("today", "today")):
            index = content.get(field)
            if index is not None and candidates[index]:
                roles[index] = f"{roles[index]}, {role}" if index in roles else role
        decision, notes = (tuple(str(line) for line in content.get(key) or ()) for key in ("decision", "notes"))
        return PlanView(candidates, roles, decision, notes)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError(f"{KIND} {where}: cannot be read: {error!r}", where or None) from None


@dataclass(frozen=True)
class Mark:
    """A candidate in the plot; places in percent of the axes."""

    x: float
    y: float
    speeds: tuple[float, float]
    """The interval of its speed."""
    costs: tuple[float, float]
    """The interval of its cost."""
    number: int | None
    """Its line in the table; None for a dot."""
    role: str
    is_on_frontier: bool
    words: str


@dataclass(frozen=True)
class FrontierChart:
    """Speed across, cost upwards."""

    marks: Sequence[Mark]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    hidden: int
    """Number of clusters that are not drawn."""


def frontier_chart(plan: PlanView) -> FrontierChart | None:
    """The plot of the plan; None where fewer than two of its clusters have a speed and a price."""
    points = {
        index: (one.examples_per_s, one.usd_per_million)
        for index, one in enumerate(plan.candidates)
        if one.examples_per_s and one.usd_per_million
    }
    if len(points) < 2:
        return None
    listed = plan.numbered
    numbered = [index for index in listed if index in points]
    others = [index for index in points if index not in listed]
    shown = [*others[: max(0, DRAWN - len(numbered))], *numbered]
    across, upward = (
        _around(
            [end for index in numbered for end in (points[index][axis].low, points[index][axis].high)]
            + [points[index][axis].value for index in shown]
        )
        for axis in (0, 1)
    )
    marks = []
    for index in shown:
        one, role, (speed, usd) = plan.candidates[index], plan.roles.get(index, ""), points[index]
        rate, price = numbers.number(speed.value), numbers.number(usd.value)
        marks.append(
            Mark(
                x=across.at(speed.value),
                y=upward.at(usd.value),
                speeds=(across.at(speed.low), across.at(speed.high)),
                costs=(upward.at(usd.low), upward.at(usd.high)),
                number=listed.index(index) + 1 if index in listed else None,
                role=role,
                is_on_frontier=one.is_on_frontier,
                words=f"{one.text}{f' ({role})' if role else ''}: {rate} examples/s, ${price} per million examples",
            )
        )
    return FrontierChart(marks, _ticks(across), _ticks(upward), len(points) - len(shown))


def _around(values: Sequence[float]) -> Axis:
    """The axis of some values, with some room at its ends."""
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or max(high, 1.0) * 0.06
    return Axis(max(0.0, low - room), high + room)


def _ticks(axis: Axis) -> list[Tick]:
    step = nice_ticks(axis.high - axis.low)[1]
    return axis.ticks(step * index for index in range(math.ceil(axis.low / step), math.floor(axis.high / step) + 1))


def projected(plan: PlanView, runs: Mapping[str, RunSummary]) -> list[tuple[str, PlannedCluster, Spread]]:
    """The measured runs whose cluster the plan considered: name, projection and measured milliseconds of a step."""
    found = []
    for name, run in runs.items():
        hosts: Counter[str] = Counter()
        for group in run.cluster.values():
            hosts[f"{group.get('role')} {group.get('instance_type')}"] += len(group.get("hosts") or ())
        one = next((each for each in plan.candidates if each.hosts == hosts and each.step_ms.value > 0), None)
        if one and run.step_ms and 0 < run.step_ms.median < MOST:
            found.append((name, one, run.step_ms))
    return found
