"""What a training job has cost so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfhet import catalogue
from tfhet.follow.state import JobState
from tfhet.record import RunSummary
from tfhet.report import numbers
from tfhet.report.cost import PriceOf, bill
from tfhet.units import HOUR_S


@dataclass(frozen=True)
class JobCost:
    """The cost of a training job: seconds, and money where the prices are known."""

    billable_s: float
    """Seconds that each instance is charged for."""
    usd_per_hour: float | None
    """Price of all instances; None where one is not known."""
    is_at_most: bool
    """Whether it may be less: SageMaker says the discount of spot instances when the job has ended."""
    why: str
    """Why the price is not known, or where it is from."""

    @property
    def usd(self) -> float | None:
        """Money in USD, without storage and transfer; None where a price is not known."""
        return None if self.usd_per_hour is None else self.usd_per_hour * self.billable_s / HOUR_S

    def in_words(self, *, is_over: bool) -> str:
        """The cost in words: `12 min 03 s, $3.21 so far`; "" before the job is paid for."""
        if not self.billable_s:
            return ""
        so_far = " so far" if self.usd and not is_over else ""
        return f"{numbers.duration(self.billable_s)}, {self}{so_far}"

    def __str__(self) -> str:
        if self.usd is None:
            return self.why
        return f"{'at most ' if self.is_at_most and self.billable_s else ''}{numbers.usd(self.usd)}"


def cost_of(state: JobState, cluster: Mapping[str, Mapping[str, Any]], price_of: PriceOf, now_s: float) -> JobCost:
    """The cost of a job at `now_s` seconds since 1970. cluster: as `RunSummary.cluster`."""
    paid = bill(RunSummary(cluster=cluster), price_of)
    return JobCost(state.billable_s(now_s), paid.usd_per_hour, state.is_spot and not state.is_over, paid.why)


def training_prices(region: str) -> PriceOf:
    """Prices on demand of instances in training jobs, of no other market: EC2's are lower.

    Raises UsageError when called with a type that the catalogue does not know.
    """
    known = catalogue.default()
    return lambda name: known.price(name, region, catalogue.TRAINING)
