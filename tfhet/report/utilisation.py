"""The CPU that each host used while the ranks read, from the record of a run."""

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
    """The use of one host; None for what the record does not say, and for a limit that the host does not have."""

    name: str
    group: str
    """"" where the record does not say."""
    cpu_s: float | None
    """CPU seconds of its whole life."""
    reading_cpu_s: float | None
    """CPU seconds while the ranks read."""
    cpus_used: float | None
    """Mean number of CPUs used while the ranks read; of the whole run where the record does not say when that was."""
    limits: Mapping[str, Any]
    """Its limits `cpus`, `memory_bytes` and `bits_per_s` (of its network, in each direction), where it has them."""

    @property
    def used_pct(self) -> float | None:
        """`cpus_used` as a share of the CPUs that it may use, in percent."""
        cpus = _real(self.limits.get("cpus"))
        return _real(100.0 * self.cpus_used / cpus) if self.cpus_used is not None and cpus else None


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
    """The hosts whose CPU was counted, in the order of the cluster. lasted_s: seconds that the ranks read."""
    groups = {str(host): name for name, group in summary.cluster.items() for host in group.get("hosts") or ()}
    counted = sorted({*summary.host_cpu_s, *summary.reading_cpu_s})
    found = []
    for name in [*(host for host in groups if host in counted), *(host for host in counted if host not in groups)]:
        whole, reading = _real(summary.host_cpu_s.get(name)), _real(summary.reading_cpu_s.get(name))
        cpu_s, seconds = (reading, lasted_s) if reading is not None and lasted_s else (whole, _real(summary.duration_s))
        used = _real(cpu_s / seconds) if cpu_s is not None and seconds else None
        found.append(HostCpu(name, groups.get(name, ""), whole, reading, used, summary.limits.get(name) or {}))
    return found


def chart_of_use(hosts: Sequence[HostCpu]) -> BarChart | None:
    """CPUs used by each host, with its limit where it has one; None where none is known."""
    known = [host for host in hosts if host.cpus_used is not None]
    used = {f"{host.name} ({host.group})" if host.group else host.name: host for host in known}
    figures = {name: Figure.single(host.cpus_used or 0.0, unit="CPUs") for name, host in used.items()}
    limits = {name: cpus for name, host in used.items() if (cpus := _real(host.limits.get("cpus"))) is not None}
    return bar_chart("CPUs used by each host, in the mean", figures, limits=limits, is_linear=True)


def _real(value: object) -> float | None:
    """A finite number that is not negative, or None."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e300 else None
