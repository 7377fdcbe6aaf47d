"""The outcome of a case of `benchmarks.plan`: the error of the prediction, and the resource that really bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.cluster_runs.measured_job import JobRun
from benchmarks.plan import published
from benchmarks.plan.case import DATA, DNN, LoadCosts, PlanCase
from tfhet.plan import Prediction, Resource, Where as Place
from tfhet.record import Figure, percentile

CLEAR = 0.02
"""Shares of use that differ by less do not tell which of two resources bound."""
ON_CPUS = {Resource.DNN_CPUS, Resource.DATA_CPUS, Resource.ALL_CPUS}
"""Resources whose time a plan has to predict."""
INPUTS = {Resource.ACCELERATOR, Resource.DATA_NETWORK, Resource.DNN_NETWORK}
"""Resources whose time follows from inputs: the accelerator's step, and the limits of the networks."""


@dataclass(frozen=True)
class PlanOutcome:
    """One case that was run."""

    case: PlanCase
    costs: Mapping[str, Any]
    """Costs of its batches right before the run, as `batch_cpu` answered."""
    run: JobRun

    @property
    def prediction(self) -> Prediction:
        """The prediction from the costs right before the run."""
        return self.case.prediction(LoadCosts.of(self.case.load, self.costs))

    @property
    def error_pct(self) -> float:
        """Predicted step minus measured step, in percent of the measured one."""
        return 100.0 * (1e3 * self.prediction.step_s.value / self.run.step_ms - 1.0)

    @property
    def is_within(self) -> bool:
        """Whether the measured step is in the predicted interval."""
        step_s = self.prediction.step_s
        return step_s.low <= 1e-3 * self.run.step_ms <= step_s.high

    @property
    def width_pct(self) -> float:
        """Width of the predicted interval in percent of the predicted step."""
        step_s = self.prediction.step_s
        return 100.0 * (step_s.high - step_s.low) / step_s.value

    @property
    def use(self) -> dict[Resource, float]:
        """Share of the measured time in which each resource was used, 0 to 1.

        CPU time is measured, the time of INPUTS is known. If all hosts prepare batches, their CPUs count together.
        """
        case, step_s = self.case, 1e-3 * self.run.step_ms
        found = {
            resource: ceiling.value / step_s
            for resource, ceiling in self.prediction.ceilings_s.items()
            if resource in INPUTS
        }
        data_cpus, cpu_use = case.data_hosts * case.data_cpus, self.run.cpu_use
        if case.place is Place.EVERYWHERE:
            used = cpu_use[DNN] * case.dnn_cpus + cpu_use[DATA] * data_cpus
            return {**found, Resource.ALL_CPUS: used / (case.dnn_cpus + data_cpus)}
        found[Resource.DNN_CPUS] = cpu_use[DNN]
        return {**found, Resource.DATA_CPUS: cpu_use[DATA]} if data_cpus else found

    @property
    def bound(self) -> Resource:
        """The resource that really bound: it was used most."""
        return max(self.use, key=lambda resource: self.use[resource])

    @property
    def is_clear(self) -> bool:
        """Whether no other resource was used about as much as `bound`."""
        first, *others = sorted(self.use.values(), reverse=True)
        return all(first - other > CLEAR for other in others)

    @property
    def is_on_cpus(self) -> bool:
        """Whether CPUs bind, by the prediction or by the run."""
        return bool({self.prediction.binding, self.bound} & ON_CPUS)

    @property
    def is_right(self) -> bool:
        """Whether the prediction named the resource that bound."""
        return self.prediction.binding is self.bound

    def row(self) -> dict[str, object]:
        """Returns its row in the printed table."""
        case, found = self.case, self.prediction
        low_ms, high_ms = 1e3 * found.step_s.low, 1e3 * found.step_s.high
        return {
            "case": case.number,
            "load": case.load.key,
            "data hosts": f"{case.data_hosts} x {case.data_cpus:g}" if case.data_hosts else "-",
            "predicted ms": f"{1e3 * found.step_s.value:.0f} ({low_ms:.0f} to {high_ms:.0f})",
            "measured ms": round(self.run.step_ms, 1),
            "error %": round(self.error_pct, 1),
            "predicted": found.binding.value,
            "bound": f"{self.bound.value} {100 * self.use[self.bound]:.0f} %" + ("" if self.is_clear else " (unclear)"),
        }

    def to_json(self) -> dict[str, Any]:
        """Returns the measurements, and what follows from them."""
        return {
            "case": self.case.to_json(),
            "costs": self.costs,
            "run": vars(self.run),
            "step_ms": self.prediction.step_s.times(1e3).to_json(),
            "binding": self.prediction.binding.value,
            "use": {resource.value: share for resource, share in self.use.items()},
        }


def figures_of(outcomes: Sequence[PlanOutcome]) -> dict[str, Figure]:
    """Returns the figures of all cases, of the cases that CPUs bind, and of the published runs."""
    figures = {"plan.cases": Figure.single(len(outcomes), unit="cases")}
    for each in published.predictions():
        figures[f"plan.published.{each.key}_pct"] = Figure.single(
            each.error_pct, unit="%", against="what was published"
        )
    on_cpus = [outcome for outcome in outcomes if outcome.is_on_cpus]
    for prefix, some in (("plan", outcomes), ("plan.cpu_bound", on_cpus)):
        if some:
            errors, against = [abs(outcome.error_pct) for outcome in some], "the simulated step"
            figures |= {
                f"{prefix}.error_median_pct": Figure.of(errors, unit="%", against=against),
                f"{prefix}.error_p95_pct": Figure.single(percentile(errors, 95), unit="%", against=against),
                f"{prefix}.error_most_pct": Figure.single(max(errors), unit="%", against=against),
                f"{prefix}.interval_width_pct": Figure.of([outcome.width_pct for outcome in some], unit="%"),
                f"{prefix}.interval_holds_pct": Figure.share(sum(outcome.is_within for outcome in some), len(some)),
            }
    if clear := [outcome for outcome in outcomes if outcome.is_clear]:
        figures["plan.binding_right_pct"] = Figure.share(sum(outcome.is_right for outcome in clear), len(clear))
    figures["plan.unclear_cases"] = Figure.single(len(outcomes) - len(clear), unit="cases")
    return figures
