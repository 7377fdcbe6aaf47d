"""Summaries of a timeline: the components of each rank's steps, and the usage of each process and host."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.record import StepTime, Timeline, Waiting, measured_steps, median, natural, share_pct
from tfhet.units import HOUR_S, MIB

_LONGEST_S = 1e9
"""No run lasts so long."""


@dataclass(frozen=True)
class RankSummary:
    """The measured steps of one rank, and its checkpoints. Shares are of the time of all measured steps, 0 to 100."""

    rank: int
    host: str
    steps: int
    step_ms: float
    wait_pct: float
    wait_median_pct: float
    """Median over the steps of the share of a step."""
    copy_pct: float
    compute_pct: float
    allreduce_pct: float | None
    """None if a step has no time for it; `compute_pct` includes it then."""
    checkpoint_s: float


@dataclass(frozen=True)
class ProcessSummary:
    """CPU usage of a launcher, or of one process that it started, in CPU seconds per second: mean and maximum."""

    host: str
    name: str
    cpus: float
    most_cpus: float


@dataclass(frozen=True)
class HostSummary:
    """Usage of all processes of one host, as in `HostUsage`: means over its samples, and maximum memory."""

    host: str
    counted: str
    cpus: float
    of_cpus: float
    memory_mib: float
    received_mib_per_s: float
    sent_mib_per_s: float
    gpu_busy_pct: float | None
    """Mean of all GPUs; None without GPUs."""


def rank_summaries(timeline: Timeline) -> list[RankSummary]:
    """One summary per rank, in the order of ranks."""
    steps: dict[tuple[int, str], list[StepTime]] = defaultdict(list)
    for step in timeline.steps:
        steps[step.rank, step.host].append(step)
    return [_of_rank(timeline, *place, measured_steps(own)) for place, own in sorted(steps.items())]


def _of_rank(timeline: Timeline, rank: int, host: str, steps: Sequence[StepTime]) -> RankSummary:
    is_known = all(step.allreduce_s is not None for step in steps)
    return RankSummary(
        rank,
        host,
        sum(step.times for step in steps),
        1e3 * median([step.dur_s for step in steps]),
        share_pct(steps, lambda step: step.wait_s) or 0.0,
        Waiting.of(steps).median_pct or 0.0,
        share_pct(steps, lambda step: step.copy_s) or 0.0,
        share_pct(steps, lambda step: step.compute_s) or 0.0,
        share_pct(steps, lambda step: step.allreduce_s or 0.0) or 0.0 if is_known else None,
        sum(each.dur_s for each in timeline.pauses if (each.rank, each.name) == (rank, "checkpoint")),
    )


def process_summaries(timeline: Timeline) -> list[ProcessSummary]:
    """One summary per process, in the order of hosts and names."""
    samples: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for use in timeline.usage:
        for name, cpus in use.processes.items():
            shown = f"{name} of {use.member}" if name == "launcher" else name
            samples[use.host, shown].append((cpus, use.dur_s))
    ordered = sorted(samples.items(), key=lambda item: (natural(item[0][0]), natural(item[0][1])))
    return [ProcessSummary(host, name, _mean(own), max(cpus for cpus, _ in own)) for (host, name), own in ordered]


def host_summaries(timeline: Timeline) -> list[HostSummary]:
    """One summary per host that has samples, in the order of hosts."""
    found = []
    for host in timeline.hosts:
        samples = [(use.machine, use.dur_s) for use in timeline.usage if use.host == host and use.machine is not None]
        if samples:
            last, names = samples[-1][0], ("cpus", "received_bytes_per_s", "sent_bytes_per_s")
            cpus, received, sent = (_mean([(getattr(use, name), dur_s) for use, dur_s in samples]) for name in names)
            memory_mib = max(use.memory_bytes for use, _ in samples) / MIB
            gpus = [(busy, dur_s) for use, dur_s in samples for busy in use.gpus_busy_pct]
            gpu_pct, network = _mean(gpus) if gpus else None, (received / MIB, sent / MIB)
            found.append(HostSummary(host, last.counted, cpus, last.of_cpus, memory_mib, *network, gpu_pct))
    return found


def host_cpus(timeline: Timeline) -> dict[str, list[tuple[int, float]]]:
    """CPUs that the processes of each host used, as (second, CPUs), by host in its order. Seconds count from the first
    step, or else from the first entry; before it they are negative."""
    zero_s = timeline.steps[0].at_s if timeline.steps else timeline.began_s
    used = {host: Counter[int]() for host in timeline.hosts}
    for use in timeline.usage:
        if abs(use.at_s - zero_s) < _LONGEST_S and use.dur_s < HOUR_S:  # else it is no sample of about a second
            seconds = range(math.ceil(use.at_s - zero_s), math.ceil(use.at_s - zero_s + use.dur_s))
            used[use.host].update(dict.fromkeys(seconds, sum(use.processes.values())))
    return {host: sorted(own.items()) for host, own in used.items() if own}


def _mean(samples: Sequence[tuple[float, float]]) -> float:
    """Mean of values, each weighted by its duration in seconds."""
    total_s = sum(dur_s for _, dur_s in samples)
    return sum(value * dur_s for value, dur_s in samples) / total_s if total_s else 0.0


_COLUMNS = {
    "ranks": ("rank", "host", "steps", "ms", "wait %", "median", "copy %", "compute %", "allreduce %", "checkpoints s"),
    "processes": ("host", "process", "CPUs", "at most"),
    "hosts": ("host", "counted", "CPUs", "of", "memory MiB", "received MiB/s", "sent MiB/s", "GPU %"),
}


def timeline_json(timeline: Timeline) -> dict[str, list[dict[str, Any]]]:
    """All summaries as JSON values, with the names of the fields."""
    every: dict[str, Sequence[Any]] = {
        "ranks": rank_summaries(timeline),
        "processes": process_summaries(timeline),
        "hosts": host_summaries(timeline),
    }
    return {name: [dict(vars(each)) for each in found] for name, found in every.items()}


def timeline_tables(timeline: Timeline) -> list[tuple[str, Sequence[str], list[list[Any]]]]:
    """Title, columns and rows of each table that has rows."""
    return [
        ("steps" if name == "ranks" else name, _COLUMNS[name], [list(row.values()) for row in rows])
        for name, rows in timeline_json(timeline).items()
        if rows
    ]
