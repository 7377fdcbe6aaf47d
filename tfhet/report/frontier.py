"""What a plan projects: its clusters by speed and money, and the projection beside what runs measured.

The plan is read as JSON (`tfhet plan --json FILE`), so that a page can be made where nothing else of it is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet import errors
from tfhet.advice import Finding, choice_of
from tfhet.record import RunSummary, Spread, document
from tfhet.report import numbers
from tfhet.report.chart import HEIGHT, MOST, WIDTH, Tick, nice_ticks

KIND, SCHEMA = "plan", 1
DRAWN = 300
"""Most clusters that are drawn; those on the frontier and those with a number always are."""


@dataclass(frozen=True)
class Range:
    """A projected value with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PlannedCluster:
    """A cluster that the plan considered."""

    text: str
    """`ml.p4d.24xlarge+2*ml.c5.18xlarge`."""
    hosts: Mapping[str, int]
    """Hosts by `dnn TYPE` and `data TYPE`."""
    step_ms: Range
    examples_per_s: Range | None
    usd_per_hour: float | None
    usd_per_million: Range | None
    """Examples; None where a price is not known."""
    binding: str
    """The resource that limits it."""
    cut: str
    """Behind which part the pipeline is cut, and which hosts run what is before it."""
    is_on_frontier: bool
    fits: bool
    """Whether it keeps the limits that were asked for."""


@dataclass(frozen=True)
class PlanView:
    """The plan as a page shows it."""

    candidates: Sequence[PlannedCluster]
    roles: Mapping[int, str]
    """`chosen`, `runner-up`, `today`, by index of the candidate."""
    decision: Sequence[str]
    """In the order in which to act."""
    notes: Sequence[str]

    @property
    def choice(self) -> Finding:
        """What the plan chose."""
        index, role = next(((i, role) for i, role in self.roles.items() if "chosen" in role), (None, ""))
        chosen = None if index is None else self.candidates[index]
        return choice_of(
            None if chosen is None else chosen.text,
            binding=chosen.binding if chosen else "",
            has_data=chosen is not None and any(host.startswith("data ") for host in chosen.hosts),
            is_today="today" in role,
        )

    @property
    def numbered(self) -> list[int]:
        """The candidates that have a number in the plot and a line in the table: the roles, then the frontier."""
        frontier = [index for index, one in enumerate(self.candidates) if one.is_on_frontier]
        return list(dict.fromkeys([*self.roles, *frontier]))


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
    told: str


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


def read_plan(content: Mapping[str, Any], where: str = "") -> PlanView:
    """The plan in a JSON object; `where` (a path) goes into the messages.

    Raises UsageError for another schema version and DataError for what is no plan.
    """
    document.check_schema(content, KIND, SCHEMA, where)
    try:
        candidates = tuple(_candidate(one) for one in content["candidates"])
        roles: dict[int, str] = {}
        for field, role in (("chosen", "chosen"), ("runner_up", "runner-up"), ("today", "today")):
            index = content.get(field)
            if index is not None and candidates[index] and index >= 0:
                roles[index] = f"{roles[index]}, {role}" if index in roles else role
        decision, notes = (tuple(str(line) for line in content.get(key) or ()) for key in ("decision", "notes"))
        return PlanView(candidates, roles, decision, notes)
    except (AttributeError, KeyError, IndexError, OverflowError, TypeError, ValueError) as error:
        raise errors.DataError(f"{KIND} {where}: cannot be read: {error!r}", where or None) from None


def _candidate(one: Mapping[str, Any]) -> PlannedCluster:
    cluster, layout = one["cluster"], one.get("layout") or {}
    hosts = {f"dnn {cluster.get('dnn')}": int(cluster.get("dnn_hosts") or 0)}
    if cluster.get("data") and cluster.get("data_hosts"):
        hosts[f"data {cluster['data']}"] = int(cluster["data_hosts"])
    return PlannedCluster(
        text=str(cluster.get("text") or " + ".join(hosts)),
        hosts=hosts,
        step_ms=_range(one["step_ms"]),
        examples_per_s=_range(one["examples_per_s"]) if one.get("examples_per_s") else None,
        usd_per_hour=None if one.get("usd_per_hour") is None else _finite(one["usd_per_hour"]),
        usd_per_million=_range(one["usd_per_million_examples"]) if one.get("usd_per_million_examples") else None,
        binding=str(one.get("binding") or ""),
        cut=", ".join(str(layout[key]) for key in ("behind", "where") if layout.get(key) not in (None, "")),
        is_on_frontier=bool(one.get("on_frontier")),
        fits=bool(one.get("fits", True)),
    )


def _range(value: Mapping[str, Any]) -> Range:
    return Range(*(_finite(value[key]) for key in ("value", "low", "high")))


def _finite(value: object) -> float:
    number = document.number(value)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not abs(float(number)) < MOST:
        raise ValueError(f"{errors.shown(value)} is no finite number")
    return float(number)


def frontier_chart(plan: PlanView) -> FrontierChart | None:
    """The plot of the plan; None where fewer than two of its clusters have a speed and a price."""
    drawn = [i for i, one in enumerate(plan.candidates) if one.examples_per_s and one.usd_per_million]
    listed = plan.numbered
    numbered = [index for index in listed if index in set(drawn)]
    others = [index for index in drawn if index not in set(numbered)]
    hidden = others[max(0, DRAWN - len(numbered)) :]
    points = {index: _point(plan.candidates[index]) for index in [*others[: len(others) - len(hidden)], *numbered]}
    if len(points) < 2:
        return None
    across = _span([end for index in numbered for end in points[index][2]] + [x for x, *_ in points.values()])
    upward = _span([end for index in numbered for end in points[index][3]] + [y for _, y, *_ in points.values()])
    marks = []
    for index, (x, y, xs, ys) in points.items():
        one, role = plan.candidates[index], plan.roles.get(index, "")
        speed, usd = numbers.number(x), numbers.number(y)
        marks.append(
            Mark(
                left_pct=across.part(x),
                top_pct=100.0 - upward.part(y),
                across_pct=(across.part(xs[0]), across.part(xs[1])),
                down_pct=(100.0 - upward.part(ys[0]), 100.0 - upward.part(ys[1])),
                number=listed.index(index) + 1 if index in listed else None,
                role=role,
                told=f"{one.text}{f' ({role})' if role else ''}: {speed} examples/s, ${usd} per million examples",
            )
        )
    path = sorted(points[index][:2] for index in numbered if plan.candidates[index].is_on_frontier)
    corners = [(across.part(x) / 100 * WIDTH, HEIGHT - upward.part(y) / 100 * HEIGHT) for x, y in path]
    chosen = next((plan.candidates[index] for index, role in plan.roles.items() if "chosen" in role), None)
    return FrontierChart(
        marks=marks,
        line="M" + "L".join(f"{x:.2f},{y:.2f}" for x, y in corners) if len(corners) > 1 else "",
        x_ticks=across.ticks(),
        y_ticks=[Tick(100.0 - tick.at_pct, f"${tick.label}") for tick in upward.ticks()],
        described=f"{len(marks)} clusters by examples per second, across, and dollars per million examples, upwards."
        + (f" Chosen: {chosen.text}." if chosen else ""),
        note=f"{len(hidden)} more clusters are not drawn" if hidden else "",
    )


_Point = tuple[float, float, tuple[float, float], tuple[float, float]]


def _point(one: PlannedCluster) -> _Point:
    assert one.examples_per_s is not None and one.usd_per_million is not None
    speed, usd = one.examples_per_s, one.usd_per_million
    return speed.value, usd.value, (speed.low, speed.high), (usd.low, usd.high)


@dataclass(frozen=True)
class _Span:
    low: float
    high: float

    def part(self, value: float) -> float:
        """The place of a value in percent."""
        return min(100.0, max(0.0, 100.0 * (value - self.low) / (self.high - self.low)))

    def ticks(self) -> list[Tick]:
        step = nice_ticks(self.high - self.low)[1]
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [Tick(self.part(step * index), f"{step * index:g}") for index in range(first, last + 1)]


def _span(values: Sequence[float]) -> _Span:
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or max(abs(high), 1.0) * 0.06
    return _Span(low - room if low < 0 or low > room else 0.0, high + room)


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
        hosts = _hosts(run)
        one = next((plan.candidates[index] for index in order if plan.candidates[index].hosts == hosts), None)
        if one is None or run.step_ms is None or not 0 < run.step_ms.median < MOST or not one.step_ms.value > 0:
            continue
        rows.append(
            ProjectedRow(
                name=name,
                cluster=one.text,
                projected_ms=one.step_ms,
                measured_ms=run.step_ms,
                difference_pct=100.0 * (run.step_ms.median / one.step_ms.value - 1.0),
                is_within=one.step_ms.low <= run.step_ms.median <= one.step_ms.high,
            )
        )
    return rows


def _hosts(run: RunSummary) -> dict[str, int]:
    """As `PlannedCluster.hosts`."""
    found: dict[str, int] = {}
    for group in run.cluster.values():
        hosts = group.get("hosts")
        key = f"{group.get('role')} {group.get('instance_type')}"
        found[key] = found.get(key, 0) + (len(hosts) if isinstance(hosts, (list, tuple)) else 0)
    return found
