"""What a plan projects: its clusters by speed and money, and the projection beside what runs measured.

The plan is read as JSON (`tfhet plan --json FILE`), so that a page can be made where nothing else of it is known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet import errors
from tfhet.advice import Finding, choice_of
from tfhet.record import RunSummary, Spread, check_schema, json_number
from tfhet.report import numbers
from tfhet.report.chart import HEIGHT, MOST, WIDTH, Tick, nice_ticks, path

KIND, SCHEMA = "plan", 1
DRAWN = 300
"""Maximum number of clusters drawn; those on the frontier and those with a number always are."""


@dataclass(frozen=True)
class Range:
    """A projected value with its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Range:
        """The range in a JSON object. Raises ValueError or KeyError for what is none."""
        return cls(*(_finite(content[key]) for key in ("value", "low", "high")))


@dataclass(frozen=True)
class PlannedCluster:
    """A cluster that the plan considered."""

    text: str
    """`ml.p4d.24xlarge+2*ml.c5.18xlarge`."""
    hosts: Mapping[str, int]
    """Number of hosts by `dnn TYPE` and `data TYPE`."""
    step_ms: Range
    examples_per_s: Range | None
    usd_per_hour: float | None
    usd_per_million: Range | None
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
        """The cluster in a JSON object. Raises an error for what is none."""
        cluster, layout = content["cluster"], content.get("layout") or {}
        hosts = {f"dnn {cluster['dnn']}": int(cluster["dnn_hosts"])}
        if cluster["data_hosts"]:
            hosts[f"data {cluster['data']}"] = int(cluster["data_hosts"])
        speed, usd, usd_per_hour = (
            content.get(name) for name in ("examples_per_s", "usd_per_million_examples", "usd_per_hour")
        )
        return cls(
            text=str(cluster["text"]),
            hosts=hosts,
            step_ms=Range.read(content["step_ms"]),
            examples_per_s=Range.read(speed) if speed else None,
            usd_per_hour=None if usd_per_hour is None else _finite(usd_per_hour),
            usd_per_million=Range.read(usd) if usd else None,
            binding=str(content.get("binding") or ""),
            cut=", ".join(str(layout[key]) for key in ("behind", "where") if layout.get(key)),
            is_on_frontier=bool(content.get("on_frontier")),
            fits=bool(content.get("fits", True)),
        )


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
    def choice(self) -> Finding:
        """What the plan chose."""
        index, role = next(((i, role) for i, role in self.roles.items() if "chosen" in role), (None, ""))
        if index is None:
            return choice_of(None, binding="", has_data=False, is_today=False)
        chosen = self.candidates[index]
        has_data = any(host.startswith("data ") for host in chosen.hosts)
        return choice_of(chosen.text, binding=chosen.binding, has_data=has_data, is_today="today" in role)

    @property
    def numbered(self) -> list[int]:
        """The candidates that have a number in the plot and a line in the table: the roles, then the frontier."""
        frontier = [index for index, one in enumerate(self.candidates) if one.is_on_frontier]
        return list(dict.fromkeys([*self.roles, *frontier]))


def read_plan(content: Mapping[str, Any], where: str = "") -> PlanView:
    """The plan in a JSON object; `where` (a path) goes into the messages.

    Raises UsageError for another schema version and DataError for what is no plan.
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
    except (AttributeError, KeyError, IndexError, OverflowError, TypeError, ValueError) as error:
        raise errors.DataError(f"{KIND} {where}: cannot be read: {error!r}", where or None) from None


def _finite(value: object) -> float:
    number = json_number(value)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not abs(float(number)) < MOST:
        raise ValueError(f"{errors.shown(value)} is no finite number")
    return float(number)


@dataclass(frozen=True)
class Mark:
    """A candidate in the plot; places in percent of the plot, 0 is left and top."""

    left_pct: float
    top_pct: float
    across_pct: tuple[float, float]
    """The interval of its speed."""
    down_pct: tuple[float, float]
    """The interval of its cost."""
    number: int | None
    """Its line in the table; None for a dot."""
    role: str
    words: str


@dataclass(frozen=True)
class FrontierChart:
    """Speed across, cost upwards."""

    marks: Sequence[Mark]
    line: str
    """SVG path through the clusters on the frontier."""
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    described: str
    note: str


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
        _Span.around(
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
                left_pct=across.part(speed.value),
                top_pct=100.0 - upward.part(usd.value),
                across_pct=(across.part(speed.low), across.part(speed.high)),
                down_pct=(100.0 - upward.part(usd.low), 100.0 - upward.part(usd.high)),
                number=listed.index(index) + 1 if index in listed else None,
                role=role,
                words=f"{one.text}{f' ({role})' if role else ''}: {rate} examples/s, ${price} per million examples",
            )
        )
    on_edge = [mark for index, mark in zip(shown, marks, strict=True) if plan.candidates[index].is_on_frontier]
    corners = sorted((mark.left_pct / 100 * WIDTH, mark.top_pct / 100 * HEIGHT) for mark in on_edge)
    chosen = next((plan.candidates[index].text for index, role in plan.roles.items() if "chosen" in role), None)
    hidden = len(points) - len(shown)
    return FrontierChart(
        marks=marks,
        line=path(corners) if len(corners) > 1 else "",
        x_ticks=across.ticks(),
        y_ticks=[Tick(100.0 - tick.at_pct, f"${tick.label}") for tick in upward.ticks()],
        described=f"{len(marks)} clusters by examples per second, across, and dollars per million examples, upwards."
        + (f" Chosen: {chosen}." if chosen else ""),
        note=f"{hidden} more clusters are not drawn" if hidden else "",
    )


@dataclass(frozen=True)
class _Span:
    low: float
    high: float

    @classmethod
    def around(cls, values: Sequence[float]) -> _Span:
        """The span of values with some room at its ends."""
        low, high = min(values), max(values)
        room = 0.06 * (high - low) or max(abs(high), 1.0) * 0.06
        return cls(low - room if low < 0 or low > room else 0.0, high + room)

    def part(self, value: float) -> float:
        """The place of a value in percent."""
        return min(100.0, max(0.0, 100.0 * (value - self.low) / (self.high - self.low)))

    def ticks(self) -> list[Tick]:
        step = nice_ticks(self.high - self.low)[1]
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [Tick(self.part(step * index), f"{step * index:g}") for index in range(first, last + 1)]


@dataclass(frozen=True)
class ProjectedRow:
    """A run beside what the plan projects for its cluster."""

    name: str
    cluster: str
    projected_ms: Range
    measured_ms: Spread
    difference_pct: float
    """How far the measured median lies above the projection; negative: below."""
    is_within: bool
    """Whether it lies in the projected interval."""


def projected_rows(plan: PlanView, runs: Mapping[str, RunSummary]) -> list[ProjectedRow]:
    """The runs whose cluster the plan considered, the chosen candidate first where several are of that cluster."""
    order = sorted(range(len(plan.candidates)), key=lambda index: index not in plan.roles)
    rows = []
    for name, run in runs.items():
        hosts: Counter[str] = Counter()
        for group in run.cluster.values():
            hosts[f"{group.get('role')} {group.get('instance_type')}"] += len(group.get("hosts") or ())
        one = next((plan.candidates[index] for index in order if plan.candidates[index].hosts == hosts), None)
        if one is None or run.step_ms is None or not 0 < run.step_ms.median < MOST or not one.step_ms.value > 0:
            continue
        median_ms = run.step_ms.median
        difference_pct = 100.0 * (median_ms / one.step_ms.value - 1.0)
        is_within = one.step_ms.low <= median_ms <= one.step_ms.high
        rows.append(ProjectedRow(name, one.text, one.step_ms, run.step_ms, difference_pct, is_within))
    return rows
