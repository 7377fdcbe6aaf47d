"""How far predicted steps were from those of the clusters that ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfhet.plan.ceiling import Resource
from tfhet.record import Figure, percentile

ON_CPUS = {Resource.DNN_CPUS, Resource.DATA_CPUS, Resource.ALL_CPUS}
"""Resources whose time a plan has to predict; those of the accelerator, and the limits of networks, are given to it."""


@dataclass(frozen=True)
class Distance:
    """One prediction against the step of the cluster that it is of."""

    error_pct: float
    """In percent of the measured step; negative where that was longer than predicted."""
    holds: bool
    """Whether the predicted interval holds the step that was measured."""
    width_pct: float
    """Width of that interval, in percent of the predicted step."""

    @classmethod
    def of(cls, value: float, low: float, high: float, measured: float) -> Distance:
        """The distance of a predicted `value`, with its interval from `low` to `high`; all in one unit."""
        return cls(100.0 * (value / measured - 1.0), low <= measured <= high, 100.0 * (high - low) / value)


def figures_of_distances(prefix: str, distances: Sequence[Distance]) -> dict[str, Figure]:
    """Figures `PREFIX.error_median_pct` and others; none without a distance. Samples: case by case."""
    if not distances:
        return {}
    errors, against = [abs(one.error_pct) for one in distances], "the simulated step"
    return {
        f"{prefix}.error_median_pct": Figure.of(errors, unit="%", against=against),
        f"{prefix}.error_p95_pct": Figure.single(percentile(errors, 95), unit="%", against=against),
        f"{prefix}.error_most_pct": Figure.single(max(errors), unit="%", against=against),
        f"{prefix}.interval_width_pct": Figure.of([one.width_pct for one in distances], unit="%"),
        f"{prefix}.interval_holds_pct": Figure.share(sum(one.holds for one in distances), len(distances)),
    }
