"""The bottleneck of a job on an instance type, and why the type is not the best one: from measurements, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.instances.candidate import Candidate
from benchmarks.instances.run import InstanceRun
from tfhet.record import median
from tfhet.units import GIB

FULL_PCT = 90.0
"""From here on a resource is taken to be what a job is bound by."""
ONE_CORE_VCPUS = 2.0
"""A job that uses less than this and waits for its input is bound by one thread, with what is beside it."""
ALIKE = 1.05
"""Times that differ by less are the same."""


@dataclass(frozen=True)
class Standing:
    """One type with its runs of one load."""

    candidate: Candidate
    runs: Sequence[InstanceRun]

    @property
    def seconds(self) -> list[float] | None:
        """Seconds of all runs; None where memory was too small in any of them."""
        found = [run.seconds for run in self.runs if run.seconds is not None]
        return found if len(found) == len(self.runs) else None

    @property
    def usd(self) -> list[float] | None:
        """US dollars of all runs, at the scale of the simulation."""
        price = self.candidate.price.usd_per_hour
        return None if self.seconds is None else [run.usd(price) or 0.0 for run in self.runs]

    def median_pct(self, name: str) -> float | None:
        """The median of `cpu_pct`, `memory_pct` or `accelerator_pct`."""
        found = [value for run in self.runs if (value := getattr(run, name)) is not None]
        return median(found) if found else None


def fastest(standings: Sequence[Standing]) -> Standing | None:
    """The first that takes least time; None where no job ended."""
    return min((one for one in standings if one.seconds), key=lambda one: median(one.seconds or ()), default=None)


def cheapest(standings: Sequence[Standing]) -> Standing | None:
    """The first that costs least; None where no job ended."""
    return min((one for one in standings if one.usd), key=lambda one: median(one.usd or ()), default=None)


def bound(standing: Standing) -> str:
    """The bottleneck of its job, in words."""
    instance = standing.candidate.instance
    if standing.seconds is None:
        limit_gib = standing.runs[0].memory_limit_bytes / GIB
        return f"out of memory: killed at its limit ({limit_gib:.1f} GiB here, {instance.memory_gib:g} GiB there)"
    accelerator_pct, cpu_pct = standing.median_pct("accelerator_pct") or 0.0, standing.median_pct("cpu_pct") or 0.0
    if accelerator_pct >= FULL_PCT:
        return f"its {instance.gpu_kind} is busy"
    starved = f"accelerator starved ({accelerator_pct:.0f} % busy)"
    busy = cpu_pct / 100.0 * instance.vcpus
    if cpu_pct >= FULL_PCT:
        return f"{starved}: all {instance.vcpus} vCPUs busy"
    if busy < ONE_CORE_VCPUS:
        return f"{starved}: one core busy, {busy:.1f} of {instance.vcpus} vCPUs used"
    return f"nothing is full: accelerator {accelerator_pct:.0f} % busy, {busy:.1f} of {instance.vcpus} vCPUs used"


def reason(standing: Standing, standings: Sequence[Standing]) -> str:
    """Why it is the best, or is not: what binds it, and how time and price compare with those of the cheapest."""
    first, least = fastest(standings), cheapest(standings)
    words = bound(standing)
    titles = [title for title, one in (("fastest", first), ("cheapest", least)) if one is standing]
    if titles:
        return f"{' and '.join(titles)}; {words}"
    if standing.seconds is None or first is None or least is None:
        return words
    over = median(standing.seconds) / median(least.seconds or ())
    price = standing.candidate.price.usd_per_hour / least.candidate.price.usd_per_hour
    if price <= 1.0:
        return f"{words}; slower than {least.candidate.name} by more than it is cheaper"
    faster = "no faster than" if over > 1.0 / ALIKE else f"{1.0 / over:.1f} times as fast as"
    return f"{words}; {faster} {least.candidate.name} at {price:.1f} times the price"
