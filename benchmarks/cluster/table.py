"""Results of the runs of `benchmarks.cluster`: step times, and what they cost.

Money is that of the whole instances. A simulated host has a small part of its type's CPUs, and its accelerator is as
much slower; a whole one does the same in as much less time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.cluster.case import ClusterCase, Variant
from benchmarks.cluster_runs.point import Point
from tfhet.catalogue import AWS_POST, REGION, TRAINING, Price, shipped
from tfhet.record import Figure, RunSummary, Spread, median
from tfhet.report.cost import MS_PER_HOUR, cost_rows

Points = Mapping[str, Sequence[Point]]
"""The runs of each variant, by its key, round after round."""


def price_of(instance_type: str) -> Price | None:
    """In AWS's post, whatever the user's own catalogue says."""
    return shipped().with_file(AWS_POST).price(instance_type, REGION, TRAINING)


def usd_per_hour(case: ClusterCase, data_hosts: int) -> float:
    """US dollars an hour for all instances; one without a price counts 0."""
    priced = [(price_of(name), count) for name, count in case.instances(data_hosts).items()]
    return sum(count * price.usd_per_hour for price, count in priced if price)


def steps_ms(points: Sequence[Point]) -> list[float]:
    """Milliseconds of a step in the mean of each run. Parts of one run would not be independent samples."""
    return [1e3 * point.step_s for point in points]


def usd_per_million(case: ClusterCase, variant: Variant, points: Sequence[Point]) -> list[float]:
    """US dollars for a million examples, run by run."""
    usd_per_ms = usd_per_hour(case, variant.data_hosts) / MS_PER_HOUR * case.cpus_per_vcpu
    return [1e6 * usd_per_ms * step_ms / case.batch_size for step_ms in steps_ms(points)]


def figures_of(case: ClusterCase, points: Points) -> dict[str, Figure]:
    """The flat table: what the case is about first."""
    variants = {variant.key: variant for variant in case.variants}
    ms = {key: steps_ms(some) for key, some in points.items()}
    usd = {key: usd_per_million(case, variants[key], some) for key, some in points.items()}
    found: dict[str, Figure] = {}
    for name, (slow, fast) in case.ratios.items():
        found[name] = Figure.ratio(ms[slow], ms[fast], against=variants[slow].words)
    for name, (before, after) in case.savings.items():
        found[name] = saving_pct(usd[before], usd[after], variants[before].words)
    for key, variant in variants.items():
        found[f"{key}.step_ms"] = Figure.of(ms[key], unit="ms")
        found[f"{key}.usd_per_million_examples"] = Figure.of(usd[key], unit="USD")
        if not variant.in_memory:
            ceiling = case.ceiling(variant.form)
            found[f"{key}.over_ceiling"] = Figure.ratio(ms[key], ms[ceiling.key], against=ceiling.words)
    return {f"cluster.{case.name}.{name}": figure for name, figure in found.items()}


def saving_pct(before: Sequence[float], after: Sequence[float], against: str) -> Figure:
    """How much less is paid, in per cent; negative where it is more."""
    part = Figure.ratio(after, before)
    value, low, high = (100.0 * (1.0 - end) for end in (part.value, part.high, part.low))
    samples = tuple(100.0 * (1.0 - one) for one in part.samples)
    return Figure(value, low, high, "%", part.n, against, samples, part.level)


def rows(case: ClusterCase, points: Points) -> list[dict[str, object]]:
    """The printed table, in the columns of AWS's post: instances, price, step, cost of a step, and what is gained over
    the first. Steps are as measured here, and so is their CPU time on all hosts; money is that of whole instances."""
    runs = {variant.words: _summary(case, variant, points[variant.key]) for variant in case.variants}
    found: list[dict[str, object]] = []
    for variant, row in zip(case.variants, cost_rows(runs, price_of), strict=True):
        measured = steps_ms(points[variant.key])
        found.append(
            {
                "run": row.name,
                "instances": " + ".join(name.replace("ml.", "") for name in row.bill.instances),
                "USD/h": row.bill.usd_per_hour,
                "step ms": median(measured),
                "least": min(measured),
                "most": max(measured),
                "wait %": row.run.wait_pct,
                "CPU ms": median([1e3 * sum(point.used_s.values()) / point.steps for point in points[variant.key]]),
                "USD/step": row.usd_per_step,
                "USD/million examples": row.usd_per_million,
                "x faster": row.speedup,
                "% cheaper": row.saving_pct,
            }
        )
    return found


def _summary(case: ClusterCase, variant: Variant, points: Sequence[Point]) -> RunSummary:
    """As if it had been on whole instances."""
    count = case.instances(variant.data_hosts)
    return RunSummary(
        name=variant.words,
        cluster={name: {"instance_type": name, "hosts": [name] * hosts} for name, hosts in count.items()},
        batch_size=case.batch_size,
        ranks=1,
        step_ms=Spread.of([step_ms * case.cpus_per_vcpu for step_ms in steps_ms(points)]),
        wait_pct=median([point.wait_pct for point in points]),
    )
