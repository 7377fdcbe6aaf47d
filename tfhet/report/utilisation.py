"""How much of its CPUs each host used, from the CPU seconds that the run record holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.record import Figure, RunSummary
from tfhet.report.bars import BarChart, bar_chart

READING_BEGAN, RANK_ENDED = "reading.seen", "rank.ended"
"""Events between which `reading_cpu_s` was counted."""


@dataclass(frozen=True)
class HostCpu:
    """What one host used; None stands for what the record does not say, and for a limit that it has not."""

    name: str
    group: str
    """"" where the record does not say."""
    cpu_s: float | None
    """CPU seconds of its whole life."""
    reading_cpu_s: float | None
    """CPU seconds while the ranks read."""
    cpus_used: float | None
    """Mean number of CPUs used while the ranks read; of the whole run where the record does not say when that was."""
    cpus: float | None
    """Number of CPUs that it may use."""
    memory_bytes: int | None
    """Memory that it may use."""
    bits_per_s: float | None
    """Limit of its network in each direction."""

    @property
    def used_pct(self) -> float | None:
        """`cpus_used` as a share of `cpus`, in percent."""
        return _real(100.0 * self.cpus_used / self.cpus) if self.cpus_used is not None and self.cpus else None


def reading_s(events: Iterable[Mapping[str, Any]]) -> float | None:
    """Seconds from the first read of the ranks to the end of the last one; None where the events do not say."""
    times: dict[object, list[float]] = {READING_BEGAN: [], RANK_ENDED: []}
    for event in events:
        if event.get("event") in times and (at_s := _real(event.get("time_s"))) is not None:
            times[event["event"]].append(at_s)
    if not all(times.values()):
        return None
    lasted_s = max(times[RANK_ENDED]) - min(times[READING_BEGAN])
    return lasted_s if lasted_s > 0 else None


def use_of_hosts(summary: RunSummary, lasted_s: float | None = None) -> list[HostCpu]:
    """The hosts whose CPU was counted, in the order of the cluster. lasted_s: what `reading_s` gave."""
    groups = {str(host): name for name, group in summary.cluster.items() for host in group.get("hosts") or ()}
    counted = sorted({*summary.host_cpu_s, *summary.reading_cpu_s})
    found = []
    for name in [*(host for host in groups if host in counted), *(host for host in counted if host not in groups)]:
        limits = summary.limits.get(name) or {}
        whole, reading = _real(summary.host_cpu_s.get(name)), _real(summary.reading_cpu_s.get(name))
        cpu_s, seconds = (reading, lasted_s) if reading is not None and lasted_s else (whole, _real(summary.duration_s))
        used = _real(cpu_s / seconds) if cpu_s is not None and seconds else None
        cpus, bits_per_s = (_real(limits.get(limit)) for limit in ("cpus", "bits_per_s"))
        memory_bytes = limits.get("memory_bytes")
        found.append(HostCpu(name, groups.get(name, ""), whole, reading, used, cpus, memory_bytes, bits_per_s))
    return found


def use_chart(hosts: Sequence[HostCpu]) -> BarChart | None:
    """CPUs used by each host, with its limit where it has one."""
    figures, limits = {}, {}
    for host in hosts:
        if host.cpus_used is not None:
            name = f"{host.name} ({host.group})" if host.group else host.name
            figures[name] = Figure.single(host.cpus_used, unit="CPUs")
            if host.cpus is not None:
                limits[name] = host.cpus
    return bar_chart("CPUs used by each host, in the mean", figures, limits=limits, is_linear=True)


def busiest(hosts: Sequence[HostCpu], groups: Sequence[str]) -> tuple[str, float] | None:
    """The host of some groups that used the largest share of its CPUs, in percent; None where no limit is known."""
    known = [(host.name, host.used_pct) for host in hosts if host.group in groups and host.used_pct is not None]
    return max(known, key=lambda each: each[1], default=None)


def _real(value: object) -> float | None:
    """A finite number that is not negative, or None."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e300 else None
