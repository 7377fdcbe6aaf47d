"""Runs side by side: a table of all figures, and in words what changed from the first run to each other one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.advice import of_run
from tfhet.errors import UsageError
from tfhet.record import RunSummary
from tfhet.report import numbers
from tfhet.report.changes import UNKNOWN, Change, command_of, differing, settings_of
from tfhet.report.cost import PriceOf, cost_rows
from tfhet.report.run_tables import instances, places
from tfhet.report.run_view import RunView
from tfhet.report.tables import FittedTable, table

_FIGURES: tuple[tuple[str, Callable[[RunView], float | None]], ...] = (
    ("step time, median (ms)", lambda view: view.run.step_ms.median if view.run.step_ms else None),
    ("step time, p10 (ms)", lambda view: view.run.step_ms.p10 if view.run.step_ms else None),
    ("step time, p90 (ms)", lambda view: view.run.step_ms.p90 if view.run.step_ms else None),
    ("waiting for data (%)", lambda view: view.run.wait_pct),
    ("waiting for data, median (%)", lambda view: view.waits.median_pct),
    ("waiting in the steady state (%)", lambda view: view.waits.steady_pct),
    ("epoch starts (% of the time)", lambda view: view.waits.epoch_starts.share_pct if view.waits.is_divided else None),
    ("stalls (% of the time)", lambda view: view.waits.stalls.share_pct if view.waits.is_divided else None),
    ("examples/s", lambda view: view.run.examples_per_s),
    ("bytes/example on the wire", lambda view: view.run.bytes_per_example),
    ("first batch (s)", lambda view: view.run.first_batch_s),
    ("teardown (s)", lambda view: view.run.teardown_s),
    ("restarts", lambda view: view.run.restarts),
    ("USD per million examples", lambda view: view.run.usd_per_million_examples),
    ("billable (s)", lambda view: view.run.billable_s),
    ("USD", lambda view: view.run.usd),
)
_RATIOS = ("step time, median (ms)", "examples/s", "USD per million examples")


def compare(
    named: Mapping[str, RunSummary | RunView], price_of: PriceOf | None = None, *, has_settings: bool = False
) -> FittedTable:
    """Returns runs side by side, with ratios to the first; rows that no run measured are omitted. price_of: adds costs
    at list prices. has_settings: adds verdict, settings, stages, versions and command lines, if they differ. Raises
    UsageError without a run."""
    if not named:
        raise UsageError("compare: give at least one run")
    views = [each if isinstance(each, RunView) else RunView.of(each) for each in named.values()]
    runs = [view.run for view in views]
    rows: list[list[object]] = [["cluster", *map(instances, runs)], ["mode", *(run.mode for run in runs)]]
    if has_settings:
        rows.append(["verdict", *(of_run(view.run, waits=view.waits).state.value for view in views)])
    figures = {what: [get(view) for view in views] for what, get in _FIGURES}
    if price_of:
        priced = cost_rows(dict(zip(named, runs, strict=True)), price_of)
        figures["USD per hour, list price"] = [row.bill.usd_per_hour for row in priced]
        figures["USD per million examples, list price"] = [row.usd_per_million for row in priced]
    for what, values in figures.items():
        if any(value is not None for value in values):
            shown = [_shown(value) for value in values]
            if what in _RATIOS and (first := values[0]):
                for index, value in enumerate(values[1:], 1):
                    shown[index] += "" if value is None else f" ({numbers.number(value / first)}x)"
            rows.append([what, *shown])
    metrics = dict.fromkeys(name for run in runs for name in run.metrics)
    rows += [[name, *(_shown(run.metrics.get(name)) for run in runs)] for name in metrics]
    rows += [[name, *map(_shown, values)] for name, values in _settings(views).items()] if has_settings else []
    rows.append(["exit code", *(numbers.exit_code(run.exit_code) for run in runs)])
    return table(rows, columns=["", *named])


def _settings(views: Sequence[RunView]) -> dict[str, list[Any]]:
    """Settings, stages by place, versions and command lines that differ."""
    found = [places(view.run) for view in views]
    every = dict.fromkeys(place for each in found for place in each)
    stages = [{f"on {place}": "; ".join(each.get(place, ["none"])) for place in every if each} for each in found]
    others = [
        {**settings_of(view), **own, **view.run.versions, "CPUs": view.run.machine.get("cores_usable")}
        for view, own in zip(views, stages, strict=True)
    ]
    settings = differing(others)
    settings.pop("mode", None)  # a row of its own
    return {**settings, **differing([{"command": command_of(view)} for view in views])}


def _shown(value: Any) -> str:
    return UNKNOWN if value is None else numbers.value(value)


@dataclass(frozen=True)
class Comparison:
    """Runs, and the change from the first one to each other one."""

    views: Sequence[RunView]
    changes: Sequence[Change]
    price_of: PriceOf | None

    @classmethod
    def of(cls, views: Sequence[RunView], price_of: PriceOf | None = None) -> Comparison:
        """Compares runs. Raises UsageError for fewer than two."""
        if len(views) < 2:
            raise UsageError(f"compare needs at least two runs, got {len(views)}: `tfhet runs` lists them")
        rows = cost_rows({view.name: view.run for view in views}, price_of)
        others = list(zip(views, rows, strict=True))[1:]
        return cls(views, [Change.between(views[0], view, (rows[0], row)) for view, row in others], price_of)

    @property
    def words(self) -> list[str]:
        """The changes in sentences."""
        basis = dict.fromkeys(change.basis for change in self.changes if change.faster)
        note = (
            [f"Ranges in parentheses: {', '.join(basis)}; runs on a machine that others use vary more."]
            if basis
            else []
        )
        return [*(sentence for change in self.changes for sentence in change.words), *note]

    def table(self) -> FittedTable:
        return compare({view.name: view for view in self.views}, self.price_of, has_settings=True)

    def to_json(self) -> dict[str, Any]:
        """Returns runs and changes as JSON values; null for what is not known."""
        runs = []
        for view in self.views:
            figures = {what: get(view) for what, get in _FIGURES}
            found = of_run(view.run, waits=view.waits)
            runs.append(
                {
                    "name": view.name,
                    "folder": str(view.folder.path) if view.folder else None,
                    "verdict": found.state.value,
                    "command": command_of(view),
                    "settings": settings_of(view),
                    "stages": view.run.stages_where,
                    "versions": view.run.versions,
                    "cluster": view.run.cluster,
                    "exit_code": view.run.exit_code,
                    "figures": figures,
                }
            )
        return {"runs": runs, "changes": [change.to_json() for change in self.changes]}
