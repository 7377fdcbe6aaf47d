"""A timeline in short: the components of each rank's steps, and how busy each process and each host was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.record import Timeline, median
from tfhet.record.step_time import StepTime, measured, share_pct
from tfhet.record.timeline import natural
from tfhet.units import MIB


@dataclass(frozen=True)
class RankSummary:
    """The measured steps of one rank, and its checkpoints."""

    rank: int
    host: str
    steps: int
    step_ms: float
    """Median duration of a step in milliseconds."""
    wait_pct: float
    """Share of the time of all measured steps, 0 to 100; the next three likewise."""
    copy_pct: float
    compute_pct: float
    """Includes the allreduce where it is not known."""
    allreduce_pct: float | None
    """None where a step has no time for it."""
    checkpoint_s: float
    """Seconds of all checkpoints."""


@dataclass(frozen=True)
class ProcessSummary:
    """CPU usage of a launcher, or of one process that it started."""

    host: str
    name: str
    cpus: float
    """Mean CPU seconds per second over its samples."""
    most_cpus: float
    """The largest of its samples."""


@dataclass(frozen=True)
class HostSummary:
    """What all processes on one host used together."""

    host: str
    counted: str
    """What was counted as the host: `machine` or `cgroup`."""
    cpus: float
    """Mean CPU seconds per second."""
    of_cpus: float
    """Number of CPUs that can be used."""
    memory_mib: float
    """The largest of its samples."""
    received_mib_per_s: float
    """Mean."""
    sent_mib_per_s: float
    """Mean."""
    gpu_busy_pct: float | None
    """Mean of all GPUs; None without GPUs."""


def of_ranks(timeline: Timeline) -> list[RankSummary]:
    """One summary per rank, in the order of ranks."""
    steps: dict[tuple[int, str], list[StepTime]] = defaultdict(list)
    for step in timeline.steps:
        steps[step.rank, step.host].append(step)
    saved: dict[int, float] = defaultdict(float)
    for pause in timeline.pauses:
        saved[pause.rank] += pause.dur_s if pause.name == "checkpoint" else 0.0
    return [_of_rank(rank, host, own, saved[rank]) for (rank, host), own in sorted(steps.items())]


def _of_rank(rank: int, host: str, every: Sequence[StepTime], checkpoint_s: float) -> RankSummary:
    steps = measured(every)
    is_known = all(step.allreduce_s is not None for step in steps)

    def share(seconds_of: Callable[[StepTime], float]) -> float:
        return share_pct(steps, seconds_of) or 0.0

    return RankSummary(
        rank,
        host,
        len(steps),
        1e3 * median([step.dur_s for step in steps]),
        share(lambda step: step.wait_s),
        share(lambda step: step.copy_s),
        share(lambda step: step.compute_s),
        share(lambda step: step.allreduce_s or 0.0) if is_known else None,
        checkpoint_s,
    )


def of_processes(timeline: Timeline) -> list[ProcessSummary]:
    """One summary per process, in the order of hosts and names."""
    samples: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for use in timeline.usage:
        for name, cpus in use.processes.items():
            shown = f"{name} of {use.member}" if name == "launcher" else name
            samples[use.host, shown].append((cpus, use.dur_s))
    ordered = sorted(samples.items(), key=lambda item: (natural(item[0][0]), natural(item[0][1])))
    return [ProcessSummary(host, name, _mean(own), max(cpus for cpus, _ in own)) for (host, name), own in ordered]


def of_hosts(timeline: Timeline) -> list[HostSummary]:
    """One summary per host that has samples, in the order of hosts."""
    found = []
    for host in timeline.hosts:
        samples = [(use.machine, use.dur_s) for use in timeline.usage if use.host == host and use.machine is not None]
        if samples:
            gpus = [(busy, dur_s) for machine, dur_s in samples for busy in machine.gpus_busy_pct]
            found.append(
                HostSummary(
                    host,
                    samples[-1][0].counted,
                    _mean([(machine.cpus, dur_s) for machine, dur_s in samples]),
                    samples[-1][0].of_cpus,
                    max(machine.memory_bytes for machine, _ in samples) / MIB,
                    _mean([(machine.received_bytes_per_s, dur_s) for machine, dur_s in samples]) / MIB,
                    _mean([(machine.sent_bytes_per_s, dur_s) for machine, dur_s in samples]) / MIB,
                    _mean(gpus) if gpus else None,
                )
            )
    return found


def tables(timeline: Timeline) -> list[tuple[str, Sequence[str], list[list[Any]]]]:
    """Title, columns and rows of each table that has rows."""
    every = [
        (
            "steps",
            ("rank", "host", "steps", "ms", "wait %", "copy %", "compute %", "allreduce %", "checkpoints s"),
            [list(vars(each).values()) for each in of_ranks(timeline)],
        ),
        (
            "processes",
            ("host", "process", "CPUs", "at most"),
            [list(vars(each).values()) for each in of_processes(timeline)],
        ),
        (
            "hosts",
            ("host", "counted", "CPUs", "of", "memory MiB", "received MiB/s", "sent MiB/s", "GPU %"),
            [list(vars(each).values()) for each in of_hosts(timeline)],
        ),
    ]
    return [(title, columns, rows) for title, columns, rows in every if rows]


def to_json(timeline: Timeline) -> dict[str, Any]:
    """The tables as JSON values, with the names of the fields."""
    every = {"ranks": of_ranks(timeline), "processes": of_processes(timeline), "hosts": of_hosts(timeline)}
    return {name: [dict(vars(each)) for each in found] for name, found in every.items()}  # type: ignore[attr-defined]


def _mean(samples: Sequence[tuple[float, float]]) -> float:
    """Mean of values, each weighted by its duration in seconds."""
    total_s = sum(dur_s for _, dur_s in samples)
    return sum(value * dur_s for value, dur_s in samples) / total_s if total_s else 0.0
