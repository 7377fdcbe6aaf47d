"""A plan: the clusters that were compared, and the one that is chosen. `tfhet.advice` says it in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tfhet.plan.ceiling import Resource
from tfhet.plan.money import Candidate
from tfhet.plan.sensitivity import Change
from tfhet.planes import DataPlane
from tfhet.record import Interval

SCHEMA = 1


@dataclass(frozen=True)
class Plan:
    """The candidates that are worth showing, and the decision."""

    candidates: tuple[Candidate, ...]
    """Candidates, the best first."""
    plane: DataPlane
    """The data plane that moves batches from data hosts to ranks."""
    chosen: int | None
    """Index of the best candidate; None when none keeps the limits."""
    runner_up: int | None
    """Index of the next best."""
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
    changes: tuple[Change, ...]
    """Results with one input moved."""
    notes: tuple[str, ...]
    """Assumptions, and what is not known."""

    @property
    def server_word(self) -> str:
        """The plane's own word for a process that prepares batches."""
        return next((kind for kind, is_single in self.plane.kinds.items() if not is_single), "server")

    def name_of(self, resource: Resource) -> str:
        """Returns the resource in words, with the plane's own word for its coordinator."""
        if resource is Resource.COORDINATOR:
            return next((f"the {kind}" for kind, is_single in self.plane.kinds.items() if is_single), resource.value)
        return resource.value

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values: an interval is `value`, `low` and `high`, a price that is not known is None."""
        even = self.break_even_usd_per_hour
        return {
            "schema": SCHEMA,
            "candidates": [self._candidate(one) for one in self.candidates],
            "chosen": self.chosen,
            "runner_up": self.runner_up,
            "today": self.today,
            "alone": self.alone,
            "mixed": self.mixed,
            "break_even_usd_per_hour": even.to_json() if even else None,
            "sensitivity": [change.to_json() for change in self.changes],
            "notes": list(self.notes),
        }

    def _candidate(self, one: Candidate) -> dict[str, Any]:
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
                **self.plane.arguments(layout.servers_per_data_host, layout.servers_per_dnn_host),
                "cut": prediction.cut.position,
                "behind": prediction.cut.last_part,
                "dtype": prediction.cut.dtype,
                "compression": layout.compression,
            },
            "step_ms": prediction.step_s.times(1e3).to_json(),
            "examples_per_s": prediction.examples_per_s.to_json(),
            "usd_per_hour": one.usd_per_hour,
            "usd_per_million_examples": usd.to_json() if usd else None,
            "binding": self.name_of(prediction.binding),
            "runner_up": self.name_of(prediction.runner_up),
            "ceilings_ms": {self.name_of(each): s.times(1e3).to_json() for each, s in prediction.ceilings_s.items()},
            "on_frontier": one.on_frontier,
            "fits": not one.missed,
            "misses": list(one.missed),
        }
