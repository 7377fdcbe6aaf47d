"""The cost of a training job, until now or in all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfhet import catalogue
from tfhet.follow.state import JobState
from tfhet.record import RunSummary
from tfhet.report import PriceOf, bill, duration, usd
from tfhet.units import HOUR_S


@dataclass(frozen=True)
class JobCost:
    """The cost of a training job: seconds, and money where the prices are known."""

    billable_s: float
    """Seconds that each instance is charged for."""
    usd_per_hour: float | None
    """Price of all instances; None where one is not known."""
    is_at_most: bool
    """Whether it may be less: SageMaker reports the discount of spot instances when the job has ended."""
    why: str
    """Why the price is not known, or where it is from."""

    @property
    def usd(self) -> float | None:
        """Money in USD, without storage and transfer; None where a price is not known."""
        return None if self.usd_per_hour is None else self.usd_per_hour * self.billable_s / HOUR_S

    def in_words(self, *, is_over: bool) -> str:
        """The cost in words: `12 min 03 s, $3.21 so far`; "" before the job is paid for."""
        so_far = " so far" if self.usd and not is_over else ""
        return f"{duration(self.billable_s)}, {self}{so_far}" if self.billable_s else ""

    def __str__(self) -> str:
        if self.usd is None:
            return self.why
        return f"{'at most ' if self.is_at_most and self.billable_s else ''}{usd(self.usd)}"


def cost_of(state: JobState, cluster: Mapping[str, Mapping[str, Any]], price_of: PriceOf, now_s: float) -> JobCost:
    """Returns the cost of a job at `now_s` seconds since 1970. cluster: as `RunSummary.cluster`."""
    paid = bill(RunSummary(cluster=cluster), price_of)
    return JobCost(state.billable_s(now_s), paid.usd_per_hour, state.is_spot and not state.is_over, paid.why)


def training_prices(region: str) -> PriceOf:
    """Returns the prices on demand of instances in training jobs; EC2's, which are lower, do not count.

    The result raises UsageError for a type that the catalogue does not know.
    """
    known = catalogue.default()
    return lambda name: known.price(name, region, catalogue.TRAINING)


def usd_per_million(state: JobState, cost: JobCost, examples_per_s: float | None) -> float | None:
    """Returns the cost of a million examples while the job trains, without the time before and after."""
    if cost.usd_per_hour is None or not examples_per_s:
        return None
    share = state.billed_s / state.trained_s if state.is_spot and state.billed_s and state.trained_s else 1.0
    return 1e6 / examples_per_s * share * cost.usd_per_hour / HOUR_S
