"""A plan: what was compared, and what is chosen. `tfhet.advice` says it in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tfhet.plan.ceiling import Where
from tfhet.plan.interval import Interval
from tfhet.plan.money import Candidate
from tfhet.plan.sensitivity import Change

SCHEMA = 1


@dataclass(frozen=True)
class Plan:
    """The candidates that are worth showing, and the decision."""

    candidates: tuple[Candidate, ...]
    """The best first."""
    chosen: int | None
    """Index; None when none keeps the limits."""
    runner_up: int | None
    """Index of the next best."""
    today: int
    """Index of the cluster that one started from."""
    alone: int | None
    """Index of the best cluster without data hosts; None when none keeps the limits."""
    mixed: int | None
    """Index of the best cluster with data hosts; None when none keeps the limits."""
    cheaper_step_s: float | None
    """The step of today's cluster, were the stages as cheap as they may become; None where that was not asked."""
    break_even_usd_per_hour: Interval | None
    """Price of one data host at which the best cluster with data hosts costs as much as the best without."""
    changes: tuple[Change, ...]
    """What becomes of it when an input is another."""
    notes: tuple[str, ...]
    """What was assumed, or not known."""

    def to_json(self) -> dict[str, Any]:
        """Intervals as value, low and high; None where a price is missing."""
        even = self.break_even_usd_per_hour
        return {
            "schema": SCHEMA,
            "candidates": [_candidate(one) for one in self.candidates],
            "chosen": self.chosen,
            "runner_up": self.runner_up,
            "today": self.today,
            "alone": self.alone,
            "mixed": self.mixed,
            "break_even_usd_per_hour": even.to_json() if even else None,
            "sensitivity": [change.to_json() for change in self.changes],
            "notes": list(self.notes),
        }


def _candidate(one: Candidate) -> dict[str, Any]:
    prediction, cluster, layout, usd = one.prediction, one.cluster, one.prediction.layout, one.usd_per_million
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
            "data_host_workers": layout.workers_per_host if cluster.data else 0,
            "dnn_host_workers": layout.workers_per_host if layout.where is Where.EVERYWHERE else 0,
            "cut": prediction.cut.position,
            "behind": prediction.cut.behind,
            "dtype": prediction.cut.dtype,
            "compression": layout.compression,
        },
        "step_ms": prediction.step_s.times(1e3).to_json(),
        "examples_per_s": prediction.examples_per_s.to_json(),
        "usd_per_hour": one.usd_per_hour,
        "usd_per_million_examples": usd.to_json() if usd else None,
        "binding": prediction.binding.value,
        "runner_up": prediction.runner_up.value,
        "ceilings_ms": {each.value: s.times(1e3).to_json() for each, s in prediction.ceilings_s.items()},
        "on_frontier": one.on_frontier,
        "fits": not one.missed,
        "misses": list(one.missed),
    }
