"""From measurements and prices to a plan: today's cluster, the best with and without data hosts, and the choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfhet.plan.agreement import Agreement
from tfhet.plan.candidate import Candidate, PlanLimits, Space, break_even_usd_per_hour, candidates, frontier, ranking
from tfhet.plan.ceiling import Where
from tfhet.plan.host import ClusterShape, UsdPerHour
from tfhet.plan.prediction import best_layout
from tfhet.plan.workload import Workload
from tfhet.planes import DataPlane
from tfhet.record import Interval, json_value

SCHEMA = 1
SHOWN = 8
"""Number of best candidates that are kept, beside the frontier, today's, and the best with and without data hosts."""
CLOSE = 1.1
"""Cost over the cost of the choice up to which a cluster with too little memory or disk is named."""
NAMED = 3
"""Number of clusters with too little memory or disk that are named."""
NO_LIMITS = PlanLimits()


@dataclass(frozen=True)
class Plan:
    """The candidates that are worth showing, and the decision."""

    candidates: tuple[Candidate, ...]
    plane: DataPlane
    chosen: int | None
    """Index of the best candidate; None when none keeps the limits."""
    runner_up: int | None
    today: int
    """Index of the cluster that one started from."""
    alone: int | None
    """Index of the best cluster without data hosts; None when none keeps the limits."""
    mixed: int | None
    """Index of the best cluster with data hosts; None when none keeps the limits."""
    cheaper_step_s: float | None
    """Seconds of a step on today's cluster with stages as cheap as they may become; None where that was not asked."""
    break_even_usd_per_hour: Interval | None
    """Price of one data host at which the best cluster with data hosts costs as much as the best without."""
    notes: tuple[str, ...]
    """Assumptions, and what is not known."""
    too_small: tuple[int, ...] = ()
    """Indices of clusters with too little memory or disk that are as cheap as the chosen one, or nearly."""
    agreement: Agreement | None = None
    """The prediction for the cluster of the run against the run; None if no run was measured."""
    waited_pct: float = 0.0
    """Share of the run's steps that waited for data, 0 to 100; 0 without a run."""

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values: an interval is `value`, `low` and `high`, a price that is not known is None."""
        names = ["chosen", "runner_up", "today", "alone", "mixed", "break_even_usd_per_hour", "notes"]
        names += ["too_small", "agreement", "waited_pct"]
        candidates = [self._candidate(one) for one in self.candidates]
        found = {"schema": SCHEMA, "candidates": candidates, **{name: getattr(self, name) for name in names}}
        return dict(json_value(found))

    def _candidate(self, one: Candidate) -> dict[str, Any]:
        prediction, cluster, layout = one.prediction, one.cluster, one.prediction.layout
        on_data = 0 if layout.where is Where.TRAINER or not cluster.data_hosts else layout.servers_per_host
        on_dnn = layout.servers_per_host if layout.where is Where.EVERYWHERE else 0
        return {
            "cluster": {
                "text": str(cluster),
                "dnn": cluster.dnn.name,
                "dnn_hosts": cluster.dnn_hosts,
                "data": cluster.data.name if cluster.data else None,
                "data_hosts": cluster.data_hosts,
            },
            "layout": {
                "where": layout.where.value,
                **self.plane.arguments(on_data, on_dnn),
                "cut": prediction.cut.position,
                "behind": prediction.cut.last_part,
                "dtype": prediction.cut.dtype,
            },
            "step_ms": prediction.step_s.times(1e3),
            "examples_per_s": prediction.examples_per_s,
            "usd_per_hour": one.usd_per_hour,
            "usd_per_million_examples": one.usd_per_million,
            "binding": prediction.binding.value,
            "runner_up": prediction.runner_up.value,
            "ceilings_ms": {each.value: s.times(1e3) for each, s in prediction.ceilings_s.items()},
            "on_frontier": one.on_frontier,
            "fits": not one.missed,
            "misses": one.missed,
            "misfits": one.misfits,
        }

    def table(self) -> tuple[list[str], list[list[object]]]:
        server = next((kind for kind, is_single in self.plane.kinds.items() if not is_single), "server")
        columns = ["", "cluster", "step ms", "examples/s", "USD/h", "USD per million"]
        columns += ["USD interval", "step interval", "binds", "then", "cut"]
        marks = {self.today: "today", self.runner_up: "runner-up", self.chosen: "chosen"}
        if self.today == self.chosen:
            marks[self.today] = "chosen, today"
        rows = [self._row(marks.get(index, ""), one) for index, one in enumerate(self.candidates)]
        return [*columns, f"{server}s"], rows

    def _row(self, mark: str, one: Candidate) -> list[object]:
        prediction, layout, usd = one.prediction, one.prediction.layout, one.usd_per_million
        cut, servers = "", "none"
        if layout.where is not Where.TRAINER:
            cut = f"{prediction.cut.position}: {prediction.cut.last_part}"
            also = ", dnn hosts too" if layout.where is Where.EVERYWHERE and one.cluster.data_hosts else ""
            servers = f"{layout.servers_per_host} a host{also}"
        return [
            mark or ("frontier" if one.on_frontier else "too small" if one.misfits else "; ".join(one.missed)),
            str(one.cluster),
            1e3 * prediction.step_s.value,
            round(prediction.examples_per_s.value),
            one.usd_per_hour,
            usd.value if usd else None,
            _ends(usd) if usd else None,
            _ends(prediction.step_s.times(1e3)),
            prediction.binding.value,
            prediction.runner_up.value,
            cut,
            servers,
        ]


def _ends(interval: Interval) -> str:
    return f"{interval.low:.3g} to {interval.high:.3g}"


def make_plan(
    workload: Workload,
    today: ClusterShape,
    space: Space,
    price_of: UsdPerHour,
    plane: DataPlane,
    *,
    limits: PlanLimits = NO_LIMITS,
    saves_us: float = 0.0,
    notes: Sequence[str] = (),
    agreement: Agreement | None = None,
) -> Plan:
    """Returns the choice among today's cluster and every one of the space. plane: the data plane whose costs `workload`
    has. saves_us: as `plan_of`. notes: assumptions of the inputs. Raises UsageError for inputs that do not fit."""
    found = ranking(candidates(workload, dict.fromkeys([today, *space.clusters()]), price_of))
    edge = {one.cluster for one in frontier([one for one in found if not one.misfits])}
    found = [
        replace(one, missed=(*limits.missed(one), *map(str, one.misfits)), on_frontier=one.cluster in edge)
        for one in found
    ]
    fitting = [one for one in found if not one.missed]
    small = _too_small(found, fitting, limits, today)
    alone, mixed = (next((one for one in fitting if bool(one.cluster.data) is has), None) for has in (False, True))
    kept = {today, *edge, *(one.cluster for one in (alone, mixed, *fitting[:SHOWN], *small) if one)}
    shown = [one for one in found if one.cluster in kept]
    index_of = {one.cluster: index for index, one in enumerate(shown)}

    def index(one: Candidate | None) -> int | None:
        return index_of[one.cluster] if one else None

    less = replace(workload, pipeline=workload.pipeline.cheaper_by(saves_us)) if saves_us > 0 else None
    return Plan(
        candidates=tuple(shown),
        plane=plane,
        chosen=index(fitting[0] if fitting else None),
        runner_up=index(fitting[1] if len(fitting) > 1 else None),
        today=index_of[today],
        alone=index(alone),
        mixed=index(mixed),
        cheaper_step_s=best_layout(less, today)[0] if less else None,
        break_even_usd_per_hour=break_even_usd_per_hour(mixed, alone, price_of) if mixed and alone else None,
        too_small=tuple(index_of[one.cluster] for one in small),
        agreement=agreement,
        notes=(*notes, *_without_price(found, price_of)),
    )


def _too_small(
    found: Sequence[Candidate], fitting: Sequence[Candidate], limits: PlanLimits, today: ClusterShape
) -> list[Candidate]:
    """Returns the best cluster for each host with too little memory or disk, among today's and those that would be
    chosen, or nearly."""
    first: dict[tuple[str, str], Candidate] = {}
    most = CLOSE * _cost(fitting[0]) if fitting else math.inf
    for one in found:
        is_near = _cost(one) <= most and not limits.missed(one)
        if one.misfits and (is_near or one.cluster == today):
            first.setdefault((one.misfits[0].host, one.misfits[0].kind), one)
    return list(first.values())[:NAMED]


def _cost(one: Candidate) -> float:
    return (one.usd_per_million or one.s_per_million).value


def _without_price(found: Sequence[Candidate], price_of: UsdPerHour) -> list[str]:
    if all(one.usd_per_hour is None for one in found):
        return ["no price is known of any of these clusters: they are ranked by time"]
    names = {kind.name for one in found for kind in (one.cluster.dnn, one.cluster.data) if kind}
    missing = sorted(name for name in names if price_of(name) is None)
    return [f"no price is known of {', '.join(missing)}: ranked after all others"] if missing else []
