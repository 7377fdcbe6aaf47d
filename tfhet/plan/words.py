"""A plan as rows of tables."""

from __future__ import annotations

from tfhet.plan.ceiling import Where
from tfhet.plan.money import Candidate
from tfhet.plan.result import Plan
from tfhet.plan.sensitivity import CHANGES_PCT
from tfhet.record import Interval


def columns(plan: Plan) -> list[str]:
    """Returns the names of the columns; the last one is the plane's word for processes that prepare batches."""
    fixed = ("", "cluster", "step ms", "examples/s", "USD/h", "USD per million", "binds", "then", "cut")
    return [*fixed, f"{plan.server_word}s"]


def rows(plan: Plan) -> list[list[object]]:
    """Returns a row for each candidate, in the order of `columns`."""
    marks = {plan.today: "today", plan.runner_up: "runner-up", plan.chosen: "chosen"}
    if plan.today == plan.chosen:
        marks[plan.today] = "chosen, today"
    return [_row(plan, marks.get(index, ""), one) for index, one in enumerate(plan.candidates)]


def _row(plan: Plan, mark: str, one: Candidate) -> list[object]:
    prediction, layout, usd = one.prediction, one.prediction.layout, one.usd_per_million
    compression = "" if layout.compression == "none" else f", {layout.compression}"
    return [
        mark or ("frontier" if one.on_frontier else "; ".join(one.missed)),
        str(one.cluster),
        _text(prediction.step_s.times(1e3)),
        round(prediction.examples_per_s.value),
        one.usd_per_hour,
        _text(usd) if usd else None,
        plan.name_of(prediction.binding),
        plan.name_of(prediction.runner_up),
        "" if layout.where is Where.TRAINER else f"{prediction.cut.position}: {prediction.cut.last_part}{compression}",
        _servers(one),
    ]


def _servers(one: Candidate) -> str:
    layout = one.prediction.layout
    if layout.where is Where.TRAINER:
        return "none"
    also = ", dnn hosts too" if layout.where is Where.EVERYWHERE else ""
    return f"{layout.servers_per_host} a host{also}"


def _text(interval: Interval) -> str:
    if interval.low == interval.high:
        return f"{interval.value:.3g}"
    return f"{interval.value:.3g} ({interval.low:.3g} to {interval.high:.3g})"


def sensitivity_rows(plan: Plan) -> tuple[list[str], list[list[object]]]:
    """Returns columns and rows: the chosen cluster's step with one input moved, and an arrow to the cluster that the
    plan would choose then, where that is another one."""
    head = ["step ms, if this is", *(f"{pct:+d} %" for pct in CHANGES_PCT)]
    chosen = None if plan.chosen is None else plan.candidates[plan.chosen].cluster.name
    found: dict[str, list[object]] = {}
    for change in plan.changes:
        other = "" if change.best.name == chosen else f" -> {change.best.name}"
        found.setdefault(change.what, [change.what]).append(f"{1e3 * change.step_s:.3g}{other}")
    return head, list(found.values())
