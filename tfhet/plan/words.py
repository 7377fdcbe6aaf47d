"""A plan as people read it: rows of tables."""

from __future__ import annotations

from tfhet.plan.ceiling import Where
from tfhet.plan.interval import Interval
from tfhet.plan.money import Candidate
from tfhet.plan.result import Plan
from tfhet.plan.sensitivity import CHANGES_PCT

COLUMNS = ("", "cluster", "step ms", "examples/s", "USD/h", "USD per million", "binds", "then", "cut", "workers")


def rows(plan: Plan) -> list[list[object]]:
    """A row for each candidate, in the order of COLUMNS."""
    marks = {plan.today: "today", plan.runner_up: "runner-up", plan.chosen: "chosen"}
    if plan.today == plan.chosen:
        marks[plan.today] = "chosen, today"
    return [_row(marks.get(index, ""), one) for index, one in enumerate(plan.candidates)]


def _row(mark: str, one: Candidate) -> list[object]:
    prediction, layout, usd = one.prediction, one.prediction.layout, one.usd_per_million
    wire = "" if layout.compression == "none" else f", {layout.compression}"
    return [
        mark or ("frontier" if one.on_frontier else "; ".join(one.missed)),
        str(one.cluster),
        _told(prediction.step_s.times(1e3)),
        round(prediction.examples_per_s.value),
        one.usd_per_hour,
        _told(usd) if usd else None,
        prediction.binding.value,
        prediction.runner_up.value,
        "" if layout.where is Where.TRAINER else f"{prediction.cut.position}: {prediction.cut.behind}{wire}",
        _workers(one),
    ]


def _workers(one: Candidate) -> str:
    layout = one.prediction.layout
    if layout.where is Where.TRAINER:
        return "none"
    also = ", dnn hosts too" if layout.where is Where.EVERYWHERE else ""
    return f"{layout.workers_per_host} a host{also}"


def _told(interval: Interval) -> str:
    if interval.low == interval.high:
        return f"{interval.value:.3g}"
    return f"{interval.value:.3g} ({interval.low:.3g} to {interval.high:.3g})"


def sensitivity_rows(plan: Plan) -> tuple[list[str], list[list[object]]]:
    """Columns and rows: the chosen cluster's step with an input moved, and what would be chosen then where that is
    another cluster."""
    columns = ["step ms, if this is", *(f"{pct:+d} %" for pct in CHANGES_PCT)]
    chosen = None if plan.chosen is None else plan.candidates[plan.chosen].cluster.name
    found: dict[str, list[object]] = {}
    for change in plan.changes:
        other = "" if change.best.name == chosen else f" -> {change.best.name}"
        found.setdefault(change.what, [change.what]).append(f"{1e3 * change.step_s:.3g}{other}")
    return columns, list(found.values())
