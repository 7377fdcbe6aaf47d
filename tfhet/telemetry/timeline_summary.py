"""What a timeline says in short: where the steps of each rank went, and how busy each process and host was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.record.entry import Step
from tfhet.record.run import WARM_UP_STEPS
from tfhet.record.statistics import median
from tfhet.record.timeline import Timeline, natural
from tfhet.units import MIB


@dataclass(frozen=True)
class RankShare:
    """The steps of one rank, without the first ones."""

    rank: int
    host: str
    steps: int
    step_ms: float
    """Median."""
    wait_pct: float
    """Share of the time of all steps, as the next ones."""
    copy_pct: float
    compute_pct: float
    """Holds the allreduce where that was not told apart."""
    allreduce_pct: float | None
    checkpoint_s: float
    """Of all checkpoints."""


@dataclass(frozen=True)
class ProcessShare:
    """One process that a launcher started, or the launcher."""

    host: str
    name: str
    cpus: float
    """Mean CPU seconds per second, while it was looked at."""
    most_cpus: float
    """In one look."""


@dataclass(frozen=True)
class HostShare:
    """What was used of a host, by whomever."""

    host: str
    counted: str
    cpus: float
    """Mean."""
    of_cpus: float
    memory_mib: float
    """The most."""
    received_mib_per_s: float
    """Mean."""
    sent_mib_per_s: float
    """Mean."""
    gpu_busy_pct: float | None
    """Mean of all GPUs; None where none was looked at."""


def of_ranks(timeline: Timeline) -> list[RankShare]:
    """By rank."""
    steps: dict[tuple[int, str], list[Step]] = defaultdict(list)
    for step in timeline.steps:
        steps[step.rank, step.host].append(step)
    saved: dict[int, float] = defaultdict(float)
    for span in timeline.spans:
        saved[span.rank] += span.dur_s if span.name == "checkpoint" else 0.0
    return [_of_rank(rank, host, own, saved[rank]) for (rank, host), own in sorted(steps.items())]


def _of_rank(rank: int, host: str, steps: Sequence[Step], checkpoint_s: float) -> RankShare:
    steps = steps[WARM_UP_STEPS:] or steps
    total_s = sum(step.dur_s for step in steps)

    def share(parts: Iterable[float]) -> float:
        return 100 * sum(parts) / total_s if total_s else 0.0

    told = [step.allreduce_s for step in steps if step.allreduce_s is not None]
    return RankShare(
        rank,
        host,
        len(steps),
        1e3 * median([step.dur_s for step in steps]),
        share(step.wait_s for step in steps),
        share(step.copy_s for step in steps),
        share(step.compute_s for step in steps),
        share(told) if len(told) == len(steps) else None,
        checkpoint_s,
    )


def of_processes(timeline: Timeline) -> list[ProcessShare]:
    """By host and name."""
    looks: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for use in timeline.uses:
        for name, cpus in use.processes.items():
            shown = f"{name} of {use.member}" if name == "launcher" else name
            looks[use.host, shown].append((cpus, use.dur_s))
    ordered = sorted(looks.items(), key=lambda item: (natural(item[0][0]), natural(item[0][1])))
    return [ProcessShare(host, name, _mean(own), max(cpus for cpus, _ in own)) for (host, name), own in ordered]


def of_hosts(timeline: Timeline) -> list[HostShare]:
    """By host, those whose launcher looked."""
    found = []
    for host in timeline.hosts:
        looks = [(use.machine, use.dur_s) for use in timeline.uses if use.host == host and use.machine is not None]
        if looks:
            gpus = [(busy, dur_s) for machine, dur_s in looks for busy in machine.gpus_busy_pct]
            found.append(
                HostShare(
                    host,
                    looks[-1][0].counted,
                    _mean([(machine.cpus, dur_s) for machine, dur_s in looks]),
                    looks[-1][0].of_cpus,
                    max(machine.memory_bytes for machine, _ in looks) / MIB,
                    _mean([(machine.received_bytes_per_s, dur_s) for machine, dur_s in looks]) / MIB,
                    _mean([(machine.sent_bytes_per_s, dur_s) for machine, dur_s in looks]) / MIB,
                    _mean(gpus) if gpus else None,
                )
            )
    return found


def tables(timeline: Timeline) -> list[tuple[str, Sequence[str], list[list[Any]]]]:
    """Title, columns and rows of what there is."""
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
    """The same, by the names of the fields."""
    every = {"ranks": of_ranks(timeline), "processes": of_processes(timeline), "hosts": of_hosts(timeline)}
    return {name: [dict(vars(each)) for each in found] for name, found in every.items()}  # type: ignore[attr-defined]


def _mean(looks: Sequence[tuple[float, float]]) -> float:
    """Of values that held for so long each."""
    total_s = sum(dur_s for _, dur_s in looks)
    return sum(value * dur_s for value, dur_s in looks) / total_s if total_s else 0.0
