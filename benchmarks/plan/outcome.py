"""The outcome of a case of `benchmarks.plan`: the error of the prediction, and the resource that really bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.plan import published
from benchmarks.plan.case import Frozen, PlanCase
from benchmarks.plan.phase import AGAIN, DRAWN
from benchmarks.plan.run import Ran
from tfhet.plan import Interval, Prediction
from tfhet.plan.ceiling import Resource
from tfhet.record import Figure, median, percentile

CLEAR_PCT = 2.0
"""Percent of the step: two steps that differ by less cannot be distinguished with so few of them."""


@dataclass(frozen=True)
class PlanOutcome:
    """One case that was run."""

    case: PlanCase
    relaxed: tuple[Resource, Resource]
    """Resources of which the run was given more, one after the other: the one predicted to bind, and the next."""
    ran: Ran
    references_s: tuple[float, ...]
    """CPU seconds of a batch of the yardstick while steps as drawn were counted, the first time and the second."""

    @property
    def bound(self) -> Resource:
        """The resource that really bound: the one of which more shortened the step more."""
        return min(self.relaxed, key=lambda resource: self.ran.steps_ms[resource.value])

    @property
    def is_clear(self) -> bool:
        """Whether the two differ by more than chance."""
        first, second = (self.ran.steps_ms[resource.value] for resource in self.relaxed)
        return abs(first - second) > CLEAR_PCT / 100.0 * self.ran.drawn_ms

    def speed(self, frozen: Frozen) -> Interval:
        """Speed of the machine during the run, over that when the costs were measured."""
        then = frozen.references_s[self.case.load.chain]
        now = self.references_s
        return Interval(then / median(now), then / max(now), then / min(now))

    def prediction(self, frozen: Frozen, corrected: bool) -> Prediction:
        """corrected: by the speed of the machine."""
        return self.case.prediction(frozen, self.speed(frozen)) if corrected else self.case.prediction(frozen)

    def error_pct(self, frozen: Frozen, corrected: bool) -> float:
        """Error of the prediction in percent of the measured step; negative where that was longer than predicted."""
        return 100.0 * (1e3 * self.prediction(frozen, corrected).step_s.value / self.ran.drawn_ms - 1.0)

    def is_right(self, frozen: Frozen, corrected: bool) -> bool:
        """Whether the resource that was named is the one that bound."""
        return self.prediction(frozen, corrected).binding is self.bound

    def row(self, frozen: Frozen) -> dict[str, object]:
        """Its row in the printed table."""
        case, steps = self.case, self.ran.steps_ms
        found = self.prediction(frozen, corrected=True)
        first, second = self.relaxed
        return {
            "case": case.number,
            "load": case.load.key,
            "cut": case.position,
            "dnn": case.dnn_cpus,
            "data": f"{case.data_hosts} x {case.data_cpus:g}" if case.data_hosts else "-",
            "predicted ms": 1e3 * found.step_s.value,
            "measured ms": self.ran.drawn_ms,
            "error %": round(self.error_pct(frozen, corrected=True), 1),
            "named": found.binding.value,
            f"{DRAWN}, {AGAIN}": f"{steps[DRAWN]:.0f}, {steps[AGAIN]:.0f}",
            "with more of it": steps[first.value],
            "next": second.value,
            "with more of that": steps[second.value],
            "right": ("yes" if self.is_right(frozen, corrected=True) else "NO") + ("" if self.is_clear else " (close)"),
        }

    def told(self) -> dict[str, Any]:
        """The measurements, without what follows from them."""
        return {
            "case": self.case.to_json(),
            "relaxed": [resource.value for resource in self.relaxed],
            "ran": self.ran.to_json(),
            "references_s": list(self.references_s),
        }

    def to_json(self, frozen: Frozen) -> dict[str, Any]:
        """With what follows from it and the frozen model."""
        predictions = {
            name: {
                "step_ms": found.step_s.times(1e3).to_json(),
                "binding": found.binding.value,
                "ceilings_ms": {key.value: 1e3 * value.value for key, value in found.ceilings_s.items()},
                "error_pct": self.error_pct(frozen, corrected),
                "is_right": self.is_right(frozen, corrected),
            }
            for name, corrected in (("corrected", True), ("as_frozen", False))
            for found in (self.prediction(frozen, corrected),)
        }
        return {
            **self.told(),
            "speed": self.speed(frozen).to_json(),
            "bound": self.bound.value,
            "is_clear": self.is_clear,
            **predictions,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> PlanOutcome:
        """The inverse of `to_json`."""
        first, second = (Resource(word) for word in found["relaxed"])
        case, ran = PlanCase.from_json(found["case"]), Ran(**found["ran"])
        return cls(case, (first, second), ran, tuple(found["references_s"]))


def figures_of(outcomes: Sequence[PlanOutcome], frozen: Frozen) -> dict[str, Figure]:
    """The flat table; without an outcome, only how many there are, and the published runs. Samples: case by case."""
    figures = {"plan.cases": Figure.single(len(outcomes), unit="cases")}
    for one in published.predictions():
        figures[f"plan.published.{one.key}_pct"] = Figure.single(one.error_pct, unit="%", against="what was published")
    if not outcomes:
        return figures
    for prefix, corrected in (("plan", True), ("plan.as_frozen", False)):
        errors = [abs(one.error_pct(frozen, corrected)) for one in outcomes]
        right = sum(one.is_right(frozen, corrected) for one in outcomes)
        figures |= {
            f"{prefix}.error_median_pct": Figure.of(errors, unit="%", against="the simulated step"),
            f"{prefix}.error_p95_pct": Figure.single(percentile(errors, 95), unit="%", against="the simulated step"),
            f"{prefix}.binding_right_pct": Figure.share(right, len(outcomes)),
        }
    return figures
