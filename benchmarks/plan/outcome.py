"""The outcome of a case of `benchmarks.plan`: the error of the prediction, and the resource that really bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.cluster_runs.distance import ON_CPUS, Distance, figures_of_distances
from benchmarks.plan import published
from benchmarks.plan.case import HELD_OUT, TRIED, Frozen, PlanCase
from benchmarks.plan.phase import AGAIN, DRAWN
from benchmarks.plan.run import Ran
from tfhet.plan import Prediction
from tfhet.plan.ceiling import Resource
from tfhet.record import Figure, percentile

CLEAR_PCT, STEADY_PCT = 2.0, 10.0
"""Percent of the step. Two steps that differ by less than the first cannot be distinguished with so few of them; of a
run whose step as drawn changed by more than the second, none can."""


@dataclass(frozen=True)
class PlanOutcome:
    """One case that was run."""

    case: PlanCase
    relaxed: tuple[Resource, ...]
    """Resources of which the run was given more, in this order: all that the case has."""
    costs: Mapping[str, Any]
    """Costs of its batches apart, right before the run, as `cut_costs` says them."""
    ran: Ran
    cold_load_ns: float
    """CPU nanoseconds of a load from memory that the caches of a core do not hold, meanwhile."""

    @property
    def bound(self) -> Resource:
        """The resource that really bound: the one of which more shortened the step most."""
        return min(self.relaxed, key=self._share)

    @property
    def is_clear(self) -> bool:
        """Whether the run can tell: more of the resource shortened the step, more of no other did so as much, and the
        step as drawn was the same before and after."""
        part = CLEAR_PCT / 100.0
        least, *others = sorted(self._share(one) for one in self.relaxed)
        return self.drift_pct <= STEADY_PCT and least <= 1.0 - part and all(each > least + part for each in others)

    @property
    def drift_pct(self) -> float:
        """By how much the step as drawn changed within the run, though nothing of the case had: no prediction of one
        number can meet both."""
        return 100.0 * abs(self.ran.steps_ms[AGAIN] / self.ran.steps_ms[DRAWN] - 1.0)

    def _share(self, resource: Resource) -> float:
        """The step with more of a resource over the step as drawn, which is taken to have changed evenly between the
        first phase and the last."""
        steps = self.ran.steps_ms
        at = (1 + self.relaxed.index(resource)) / (1 + len(self.relaxed))
        return steps[resource.value] / (steps[DRAWN] + at * (steps[AGAIN] - steps[DRAWN]))

    @property
    def is_held_out(self) -> bool:
        """Whether no job of its load told the model anything."""
        return self.case.load in HELD_OUT

    def is_on_cpus(self, frozen: Frozen) -> bool:
        """Whether CPUs bind, by the model or by the run."""
        return bool({self.prediction(frozen).binding, self.bound} & ON_CPUS)

    def prediction(self, frozen: Frozen) -> Prediction:
        """By the costs of right before the run."""
        return self.case.prediction(frozen.renewed(self.case.load, self.costs))

    def distance(self, frozen: Frozen) -> Distance:
        """How far the prediction is from the step that was measured."""
        step_ms = self.prediction(frozen).step_s.times(1e3)
        return Distance.of(step_ms.value, step_ms.low, step_ms.high, self.ran.drawn_ms)

    def is_right(self, frozen: Frozen) -> bool:
        """Whether the resource that was named is the one that bound."""
        return self.prediction(frozen).binding is self.bound

    def row(self, frozen: Frozen) -> dict[str, object]:
        """Its row in the printed table."""
        case, steps = self.case, self.ran.steps_ms
        found, distance = self.prediction(frozen), self.distance(frozen)
        return {
            "case": case.number,
            "load": case.load.key,
            "cut": case.position,
            "dnn": case.dnn_cpus,
            "data": f"{case.data_hosts} x {case.data_cpus:g}" if case.data_hosts else "-",
            "predicted ms": 1e3 * found.step_s.value,
            "interval": f"{1e3 * found.step_s.low:.0f} to {1e3 * found.step_s.high:.0f}",
            "measured ms": self.ran.drawn_ms,
            "error %": round(distance.error_pct, 1),
            "holds": "yes" if distance.holds else "NO",
            "named": found.binding.value,
            f"{DRAWN}, {AGAIN}": f"{steps[DRAWN]:.0f}, {steps[AGAIN]:.0f}",
            "with more": ", ".join(f"{one.value} {steps[one.value]:.0f}" for one in self.relaxed),
            "right": ("yes" if self.is_right(frozen) else "NO") + ("" if self.is_clear else " (unclear)"),
            "cold load ns": round(self.cold_load_ns),
        }

    def told(self) -> dict[str, Any]:
        """The measurements, without what follows from them."""
        return {
            "case": self.case.to_json(),
            "relaxed": [resource.value for resource in self.relaxed],
            "costs": self.costs,
            "ran": self.ran.to_json(),
            "cold_load_ns": self.cold_load_ns,
        }

    def to_json(self, frozen: Frozen) -> dict[str, Any]:
        """With what follows from it and the frozen model."""
        found = self.prediction(frozen)
        return {
            **self.told(),
            "bound": self.bound.value,
            "is_clear": self.is_clear,
            "is_held_out": self.is_held_out,
            "step_ms": found.step_s.times(1e3).to_json(),
            "binding": found.binding.value,
            "ceilings_ms": {key.value: 1e3 * value.value for key, value in found.ceilings_s.items()},
            **vars(self.distance(frozen)),
            "is_right": self.is_right(frozen),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> PlanOutcome:
        """The inverse of `to_json`."""
        relaxed = tuple(Resource(word) for word in found["relaxed"])
        case, ran = PlanCase.from_json(found["case"]), Ran(**found["ran"])
        return cls(case, relaxed, found["costs"], ran, found["cold_load_ns"])


def figures_of(outcomes: Sequence[PlanOutcome], frozen: Frozen) -> dict[str, Figure]:
    """The flat table; without an outcome, only how many there are, and the published runs. Samples: case by case."""
    figures = {"plan.cases": Figure.single(len(outcomes), unit="cases")}
    for one in published.predictions():
        figures[f"plan.published.{one.key}_pct"] = Figure.single(one.error_pct, unit="%", against="what was published")
    if not outcomes:
        return figures
    on_cpus = [one for one in outcomes if one.is_on_cpus(frozen)]
    held_out = [one for one in on_cpus if one.is_held_out]
    chain = [one for one in held_out if one.case.load.chain not in {load.chain for load in TRIED}]
    for prefix, some in {
        "plan": outcomes,
        "plan.cpu_bound": on_cpus,
        "plan.cpu_bound.held_out": held_out,
        "plan.cpu_bound.other_chain": chain,
    }.items():
        figures |= figures_of_distances(prefix, [one.distance(frozen) for one in some])
    if on_cpus:
        drifts, against = [one.drift_pct for one in on_cpus], "the same step, some phases before"
        figures["plan.cpu_bound.drift_median_pct"] = Figure.of(drifts, unit="%", against=against)
        figures["plan.cpu_bound.drift_p95_pct"] = Figure.single(percentile(drifts, 95), unit="%", against=against)
    clear = [one for one in outcomes if one.is_clear]
    figures["plan.unclear_cases"] = Figure.single(len(outcomes) - len(clear), unit="cases")
    if clear:
        right = sum(one.is_right(frozen) for one in clear)
        figures["plan.binding_right_pct"] = Figure.share(right, len(clear))
    return figures
