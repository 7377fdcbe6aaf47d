"""The outcome of a case of `benchmarks.plan_runs`: how far the plan's step was from the one measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.cluster_runs.distance import ON_CPUS, Distance, figures_of_distances
from benchmarks.cluster_runs.pace import pace
from benchmarks.plan_runs.case import PlanRunCase
from benchmarks.plan_runs.speed import Speed
from tfhet.errors import JobFailed
from tfhet.record import Figure, RunSummary, median

SETTLING = 0.5
"""Part of a run's measured steps, the first ones, that are not its steady state: buffers fill, or are used up."""
LEAST_STEPS = 20
SIGNIFICANT = 5
CPUS = {one.value for one in ON_CPUS}


@dataclass(frozen=True)
class Run:
    """The steps of one run, as its record has them."""

    cluster: str
    steps_ms: tuple[float, ...]
    """Milliseconds of each step of rank 0, without the warm-up."""
    waits_ms: tuple[float, ...]
    told: Mapping[str, Any]
    """More of its record."""

    @classmethod
    def of(cls, cluster: str, summary: RunSummary) -> Run:
        """Raises JobFailed for a run of too few steps."""
        steps = summary.step_ms.samples if summary.step_ms else ()
        if len(steps) < LEAST_STEPS or summary.wait_ms is None:
            raise JobFailed(f"a run on {cluster} measured {len(steps)} steps of {LEAST_STEPS}: {summary.cause or ''}")
        fields = ("mode", "ranks", "batch_size", "wait_pct", "stages_where", "limits", "reading_cpu_s", "duration_s")
        told = {name: getattr(summary, name) for name in fields}
        told["cpu_ms"] = summary.cpu_ms.to_json() if summary.cpu_ms else None
        told["not_limited"] = list(summary.not_limited)
        return cls(cluster, _rounded(steps), _rounded(summary.wait_ms.samples), told)

    @property
    def steady_ms(self) -> Sequence[float]:
        """The steps of the steady state."""
        return self.steps_ms[round(SETTLING * len(self.steps_ms)) :]

    @property
    def step_ms(self) -> float:
        """Milliseconds a step of the steady state takes. Not their median: batches come in bursts."""
        return pace(self.steady_ms)

    def to_json(self) -> dict[str, Any]:
        steady = {"step_ms": self.step_ms, "median_ms": median(self.steady_ms)}
        samples = {"steps_ms": list(self.steps_ms), "waits_ms": list(self.waits_ms)}
        return {"cluster": self.cluster, **steady, **self.told, **samples}


def _rounded(samples: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(f"{sample:.{SIGNIFICANT}g}") for sample in samples)


@dataclass(frozen=True)
class PlanRunOutcome:
    """One case that was run."""

    case: PlanRunCase
    before: Run
    candidate: Mapping[str, Any]
    """The plan's candidate for the cluster that is asked about."""
    after: Run
    speeds: tuple[Speed, ...] = (Speed(1.0, 1.0),)
    """The machine's, beside the first run, the profile and the second run."""

    @property
    def drift_pct(self) -> float:
        """How much slower the CPUs were beside one of these than beside another."""
        return _drift_pct([one.pass_ms for one in self.speeds])

    @property
    def load_drift_pct(self) -> float:
        """How much slower loads from memory were beside one of these than beside another."""
        return _drift_pct([one.cold_load_ns for one in self.speeds])

    @property
    def predicted_ms(self) -> Mapping[str, float]:
        """`value`, `low` and `high`."""
        return self.candidate["step_ms"]

    @property
    def distance(self) -> Distance:
        """How far the plan's step is from the one measured."""
        found = self.predicted_ms
        return Distance.of(found["value"], found["low"], found["high"], self.after.step_ms)

    @property
    def is_bound_by_cpus(self) -> bool:
        """Whether the plan says so: of an accelerator whose step was given, no error can be large."""
        return self.candidate["binding"] in CPUS

    def row(self) -> dict[str, object]:
        """Its row in the printed table."""
        predicted = self.predicted_ms
        return {
            "case": self.case.name,
            "from": str(self.case.before),
            "ms": self.before.step_ms,
            "to": str(self.case.after),
            "predicted ms": predicted["value"],
            "interval": f"{predicted['low']:.0f} to {predicted['high']:.0f}",
            "measured ms": self.after.step_ms,
            "error %": round(self.distance.error_pct, 1),
            "holds": "yes" if self.distance.holds else "NO",
            "drift %": round(self.drift_pct, 1),
            "load drift %": round(self.load_drift_pct),
            "binds": self.candidate["binding"],
        }

    def to_json(self) -> dict[str, Any]:
        found = {**vars(self.distance), "speeds": [vars(one) for one in self.speeds]}
        runs = {"before": self.before.to_json(), "after": self.after.to_json()}
        return {"case": self.case.to_json(), **found, "plan": dict(self.candidate), **runs}


def _drift_pct(taken: Sequence[float]) -> float:
    return 100.0 * (max(taken) / min(taken) - 1.0)


def figures_of(outcomes: Sequence[PlanRunOutcome]) -> dict[str, Figure]:
    """The flat table. Samples: case by case."""
    figures = {"plan_runs.cases": Figure.single(len(outcomes), unit="cases")}
    if not outcomes:
        return figures
    figures["plan_runs.drift_most_pct"] = Figure.single(max(one.drift_pct for one in outcomes), unit="%")
    figures["plan_runs.load_drift_most_pct"] = Figure.single(max(one.load_drift_pct for one in outcomes), unit="%")
    figures |= figures_of_distances("plan_runs", [one.distance for one in outcomes])
    on_cpus = [one.distance for one in outcomes if one.is_bound_by_cpus]
    return figures | figures_of_distances("plan_runs.cpu_bound", on_cpus)
