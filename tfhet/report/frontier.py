"""A plan on a page, read from `tfhet plan --json FILE`: clusters by speed and cost, projected and measured steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tfhet.errors import DataError
from tfhet.record import Interval, RunSummary, Spread
from tfhet.report.chart import MOST, Axis
from tfhet.schema import check_schema

KIND, SCHEMA = "plan", 1
PlannedCluster: TypeAlias = Mapping[str, Any]
"""A cluster that the plan considered: its JSON, with each interval as an `Interval`."""


def _planned(content: Mapping[str, Any]) -> PlannedCluster:
    """Reads a cluster from JSON; raises KeyError, TypeError or ValueError."""
    cluster, found = content["cluster"], {"layout": {}, "usd_per_million_examples": None, "fits": True, **content}
    for name in ("step_ms", "examples_per_s", "usd_per_million_examples"):
        if found[name] or name == "step_ms":
            found[name] = Interval(*(float(found[name][end]) for end in ("value", "low", "high")))
    hosts = {f"{role} {cluster[role]}": int(cluster[f"{role}_hosts"]) for role in ("dnn", "data")}
    return {**found, "text": str(cluster["text"]), "hosts": {name: count for name, count in hosts.items() if count}}


@dataclass(frozen=True)
class PlanView:
    candidates: Sequence[PlannedCluster]
    roles: Mapping[int, str]
    """`chosen`, `runner-up` or `today`, by the index of the candidate."""
    decision: Sequence[str]
    """Sentences; the last one is the choice."""
    notes: Sequence[str]

    @property
    def chosen(self) -> int | None:
        """Index of the chosen candidate; None if no cluster keeps the limits."""
        return next((index for index, role in self.roles.items() if "chosen" in role), None)

    @property
    def numbered(self) -> list[int]:
        """Candidates with a number in the plot and a row in the table: those with a role, then the frontier."""
        frontier = [index for index, one in enumerate(self.candidates) if one["on_frontier"]]
        return list(dict.fromkeys([*self.roles, *frontier]))


def read_plan(content: Mapping[str, Any], where: str = "") -> PlanView:
    """Reads a plan from JSON; `where` names it in messages. Raises UsageError for another schema, and DataError."""
    check_schema(content, KIND, SCHEMA, where)
    try:
        candidates = tuple(_planned(one) for one in content["candidates"])
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
class FrontierChart:
    """Clusters by speed (x) and cost (y)."""

    marks: Sequence[PlannedCluster]
    """The clusters, each with its `role`, the `number` of its row in the table (None for a dot), and the `side` of its
    pin for its name, such as `upper left`."""
    across: Axis
    upward: Axis


def frontier_chart(plan: PlanView) -> FrontierChart | None:
    """Returns the plot of the plan; None if fewer than two clusters have a speed and a price."""
    points = {
        index: (one["examples_per_s"], one["usd_per_million_examples"])
        for index, one in enumerate(plan.candidates)
        if one["examples_per_s"] and one["usd_per_million_examples"]
    }
    if len(points) < 2:
        return None
    listed = plan.numbered
    numbered = [index for index in listed if index in points]
    shown = [*(index for index in points if index not in listed), *numbered]
    across, upward = (
        _around(
            [end for index in numbered for end in (points[index][axis].low, points[index][axis].high)]
            + [points[index][axis].value for index in shown]
        )
        for axis in (0, 1)
    )
    numbers = {index: number for number, index in enumerate(listed, start=1)}
    cheapest = min((points[index][1].value for index in plan.roles if index in points), default=0.0)
    marks = []
    for index in shown:
        speed, usd = (end.value for end in points[index])
        side = f"{'lower' if usd <= cheapest else 'upper'} {'left' if across.at(speed) > 50 else 'right'}"
        own = {"role": plan.roles.get(index, ""), "number": numbers.get(index), "side": side}
        marks.append({**plan.candidates[index], **own})
    return FrontierChart(marks, across, upward)


def _around(values: Sequence[float]) -> Axis:
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or max(high, 1.0) * 0.06
    return Axis(max(0.0, low - room), high + room)


def projected(plan: PlanView, runs: Mapping[str, RunSummary]) -> list[tuple[str, PlannedCluster, Spread]]:
    """Returns name, plan and measured step (ms) of each run whose cluster the plan considered."""
    found = []
    for name, run in runs.items():
        hosts: Counter[str] = Counter()
        for group in run.cluster.values():
            hosts[f"{group.get('role')} {group.get('instance_type')}"] += len(group.get("hosts") or ())
        one = next((each for each in plan.candidates if each["hosts"] == hosts and each["step_ms"].value > 0), None)
        if one and run.step_ms and 0 < run.step_ms.median < MOST:
            found.append((name, one, run.step_ms))
    return found
