"""The figures of a case of `benchmarks.cluster`: step times, how far they are from the ideal, and what they cost.

Prices are prices of whole instances. A simulated host has a small part of its type's CPUs: a whole instance needs less
time for a step by the same factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.cluster.case import ClusterCase, Variant
from benchmarks.cluster_runs.measured_job import JobRun
from tfhet.record import Figure
from tfhet.report.cost import MS_PER_HOUR

IDEAL = "the accelerator's step, or the CPU time of a batch alone over all CPUs"


@dataclass(frozen=True)
class Results:
    """The measurements of a case. The i-th ones of all series were taken in the same round."""

    case: ClusterCase
    step_s: float
    """Seconds of the accelerator's step."""
    batch_cpu_s: Mapping[str, Sequence[float]]
    """CPU seconds of a batch outside any job, by input."""
    runs: Mapping[str, Sequence[JobRun]]
    """The runs of each variant, by its key."""

    def steps_ms(self, variant: Variant) -> list[float]:
        return [run.step_ms for run in self.runs[variant.key]]

    def usd(self, variant: Variant) -> list[float]:
        """US dollars per million examples, run by run."""
        prices, case = self.case.prices(), self.case
        hourly = sum(count * prices[name].usd_per_hour for name, count in case.instances(variant.data_hosts).items())
        per_ms = hourly / MS_PER_HOUR * case.cpus_per_vcpu
        return [1e6 * per_ms * step_ms / case.batch_size for step_ms in self.steps_ms(variant)]

    def ideals_ms(self, variant: Variant) -> list[float]:
        costs = self.batch_cpu_s[variant.input]
        return [1e3 * self.case.ideal_s(variant.data_hosts, cost, self.step_s) for cost in costs]


def figures_of(results: Results) -> dict[str, Figure]:
    """Returns the figures `cluster.CASE.NAME`; ratios only of variants that were measured."""
    case, found = results.case, dict[str, Figure]()
    variants = {variant.key: variant for variant in case.variants}
    for name, (slow, fast) in case.ratios.items():
        if {slow, fast} <= set(variants):
            steps = results.steps_ms(variants[slow]), results.steps_ms(variants[fast])
            found[name] = Figure.ratio(*steps, against=variants[slow].words)
    for name, (before, after) in case.savings.items():
        if {before, after} <= set(variants):
            usd = results.usd(variants[before]), results.usd(variants[after])
            found[name] = saving_pct(*usd, variants[before].words)
    for key, variant in variants.items():
        found[f"{key}.step_ms"] = Figure.of(results.steps_ms(variant), unit="ms")
        found[f"{key}.over_ideal"] = Figure.ratio(results.steps_ms(variant), results.ideals_ms(variant), against=IDEAL)
        if case.savings:
            found[f"{key}.usd_per_million_examples"] = Figure.of(results.usd(variant), unit="USD")
    for name, costs in results.batch_cpu_s.items():
        found[f"{name}.batch_cpu_ms"] = Figure.of([1e3 * cost for cost in costs], unit="ms")
    return {f"cluster.{case.name}.{name}": figure for name, figure in found.items()}


def saving_pct(before: Sequence[float], after: Sequence[float], against: str) -> Figure:
    """Returns by how many percent `after` is below `before`; negative if it is above."""
    part = Figure.ratio(after, before)
    value, low, high = (100.0 * (1.0 - end) for end in (part.value, part.high, part.low))
    samples = tuple(100.0 * (1.0 - sample) for sample in part.samples)
    return replace(part, value=value, low=low, high=high, unit="%", against=against, samples=samples)
