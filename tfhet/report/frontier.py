"""The section of a plan: its clusters by speed and money, and what it projects beside what runs measured. The plan is
read as JSON (`tfhet plan --json FILE`), so that a page can be made long after the plan."""

from __future__ import annotations

import itertools
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
"""A cluster that the plan considered: its JSON with that of `cluster` in it, its intervals as `Interval`."""


def _planned(content: Mapping[str, Any]) -> PlannedCluster:
    """The cluster in a JSON object. Raises KeyError, TypeError or ValueError for anything else."""
    cluster, found = content["cluster"], {"layout": {}, "usd_per_million_examples": None, "fits": True, **content}
    for name in ("step_ms", "examples_per_s", "usd_per_million_examples"):
        if found[name] or name == "step_ms":
            found[name] = Interval(*(float(found[name][end]) for end in ("value", "low", "high")))
    hosts = {f"{role} {cluster[role]}": int(cluster[f"{role}_hosts"]) for role in ("dnn", "data")}
    return {**found, "text": str(cluster["text"]), "hosts": {name: count for name, count in hosts.items() if count}}


@dataclass(frozen=True)
class PlanView:
    """The plan as a page shows it."""

    candidates: Sequence[PlannedCluster]
    roles: Mapping[int, str]
    """`chosen`, `runner-up`, `today`, by index of the candidate."""
    decision: Sequence[str]
    """Sentences in the order in which to act; the last one is the choice."""
    notes: Sequence[str]

    @property
    def chosen(self) -> int | None:
        """Index of the chosen candidate; None where no cluster keeps the limits."""
        return next((index for index, role in self.roles.items() if "chosen" in role), None)

    @property
    def numbered(self) -> list[int]:
        """The candidates that have a number in the plot and a line in the table: the roles, then the frontier."""
        frontier = [index for index, one in enumerate(self.candidates) if one["on_frontier"]]
        return list(dict.fromkeys([*self.roles, *frontier]))


def read_plan(content: Mapping[str, Any], where: str = "") -> PlanView:
    """The plan in a JSON object; `where` (a path) goes into the messages. Raises UsageError for another schema version
    and DataError for anything but a plan."""
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
    """Speed across, cost upwards."""

    marks: Sequence[PlannedCluster]
    """The marks, each with its `role`, and with the `number` of its line in the table; None for a dot."""
    across: Axis
    upward: Axis

    def sides(self, width: int, height: int) -> dict[int, str]:
        """The corner of its pin at which the name of a role covers no pin and no name in a plot of so many pixels, by
        the number of the pin. A letter is 6.6 pixels wide, a name 18 high, a pin 24 wide and high."""
        numbered, found = [mark for mark in self.marks if mark["number"]], dict[int, str]()
        x_px = [self.across.at(mark["examples_per_s"].value) * width / 100 for mark in numbered]
        y_px = [self.upward.at(mark["usd_per_million_examples"].value) * height / 100 for mark in numbered]
        taken = [(x, y, 12.0, 12.0) for x, y in zip(x_px, y_px, strict=True)]  # its middle, and how far it reaches
        for mark, (x, y, *_) in zip(numbered, taken.copy(), strict=True):
            half = 3.3 * len(mark["text"].replace("ml.", "")) if mark["role"] else width  # which has no room anywhere
            for up, right in itertools.product((22, -22) if y > min(y_px) else (-22, 22), (1, -1)):
                at, high = x + right * (half + 6), y + up
                is_within = half <= at <= width - half and 9 <= high <= height - 9
                if is_within and all(abs(at - a) >= half + b or abs(high - c) >= 9 + d for a, c, b, d in taken):
                    found[mark["number"]] = f"{'upper' if up > 0 else 'lower'} {'right' if right > 0 else 'left'}"
                    taken.append((at, high, half, 9.0))
                    break
        return found


def frontier_chart(plan: PlanView) -> FrontierChart | None:
    """The plot of the plan; None where fewer than two of its clusters have a speed and a price."""
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
    marks = [
        {**plan.candidates[index], "role": plan.roles.get(index, ""), "number": numbers.get(index)} for index in shown
    ]
    return FrontierChart(marks, across, upward)


def _around(values: Sequence[float]) -> Axis:
    """The axis of some values, with some room at its ends."""
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or max(high, 1.0) * 0.06
    return Axis(max(0.0, low - room), high + room)


def projected(plan: PlanView, runs: Mapping[str, RunSummary]) -> list[tuple[str, PlannedCluster, Spread]]:
    """The measured runs whose cluster the plan considered: name, projection and measured milliseconds of a step."""
    found = []
    for name, run in runs.items():
        hosts: Counter[str] = Counter()
        for group in run.cluster.values():
            hosts[f"{group.get('role')} {group.get('instance_type')}"] += len(group.get("hosts") or ())
        one = next((each for each in plan.candidates if each["hosts"] == hosts and each["step_ms"].value > 0), None)
        if one and run.step_ms and 0 < run.step_ms.median < MOST:
            found.append((name, one, run.step_ms))
    return found
