"""A long run on the cluster of the long measurements: two data hosts with two workers each, one dnn host with one rank.

The data are synthetic and the chain costs the workers about a millisecond of CPU for each example, so that they are
what limits the job, also where all hosts share one machine. The step is emulated: it takes time and no CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cluster_runs.observed_job import ObservedJob
from tfhet.clock import SYSTEM
from tfhet.errors import JobFailed
from tfhet.record import RunSummary
from tfhet.simulate import ClusterFile, Fault, GroupFile

WORKERS = 4
CLUSTER = ClusterFile(
    "two-data-one-dnn",
    {"data_group": GroupFile(hosts=2, instance_type="ml.c5.xlarge"), "dnn_group": GroupFile()},
    {},
    {"data_host_workers": str(WORKERS // 2)},
)
CHAIN = "resize(448, 448); random_rotation(0.1); gaussian_blur(11, 0.8); resize(32, 32)"
BATCH = 32
SPLITS = 64
"""Number of splits of an epoch: a worker holds one sixteenth of its share at a time, which is what a kill can cost."""


@dataclass(frozen=True)
class Load:
    """The work of one run."""

    step_ms: float
    """Milliseconds of the emulated step; 0: as fast as the data come."""
    examples: int
    """In an epoch."""
    epochs: int

    @classmethod
    def lasting(cls, seconds: float, examples_per_s: float, step_ms: float, epoch_s: float = 30.0) -> Load:
        """A load that takes about so long at this rate, in epochs of about `epoch_s`."""
        epochs = max(1, round(seconds / epoch_s))
        batches = examples_per_s * seconds / epochs / BATCH
        whole = max(1, round(batches / SPLITS))  # batches in a split, so that all batches are full
        return cls(step_ms, whole * SPLITS * BATCH, epochs)

    @property
    def arguments(self) -> list[str]:
        """For the launcher."""
        return [
            *f"--model emulated --step_ms {self.step_ms:.3f} --batch_size {BATCH} --epochs {self.epochs}".split(),
            *f"--data synthetic:{self.examples}:{SPLITS} --shuffle 0 --validation none --export false".split(),
            *("--checkpoint_every_epochs", "0", "--log_every", "10", "--chain", CHAIN),
        ]


@dataclass(frozen=True)
class LongRun:
    """How one run went."""

    load: Load
    summary: RunSummary
    wall_s: float
    """From the first metric line to the end of the last epoch, the ends of epochs between them included."""
    examples: int
    """Delivered in that time."""
    kills: int
    lines: tuple[tuple[float, int], ...] = field(default=(), repr=False)
    """Seconds since the first metric line, and steps by then."""

    @property
    def examples_per_s(self) -> float:
        """By the wall clock."""
        return self.examples / self.wall_s

    @property
    def breaches(self) -> list[str]:
        """Descriptions of the rules that the run broke; they hold with and without faults."""
        epochs = self.summary.epochs
        found = [] if len(epochs) == self.load.epochs else [f"{len(epochs)} of {self.load.epochs} epochs"]
        for epoch in epochs:
            for name in ("missing", "repeated"):
                if epoch.get(name):
                    found.append(f"epoch {epoch['epoch']}: {epoch[name]} {name}")
        return found

    def to_json(self) -> dict[str, Any]:
        summary = self.summary
        return {
            "step_ms": self.load.step_ms,
            "epochs_of": self.load.examples,
            "wall_s": self.wall_s,
            "examples": self.examples,
            "examples_per_s": self.examples_per_s,
            "examples_per_s_of_steps": summary.examples_per_s,
            "wait_pct": summary.wait_pct,
            "kills": self.kills,
            "restarts": summary.restarts,
            "epochs": [dict(epoch) for epoch in summary.epochs],
            "breaches": self.breaches,
            "lines": [list(line) for line in self.lines],
        }


def long_run(load: Load, launcher: Path, place: Path, faults: Sequence[str] = (), limit_s: float = 600.0) -> LongRun:
    """One run in `place`, a new folder. Raises JobFailed for a job that does not come to a good end."""
    job = watched(load, launcher, place, faults, limit_s)
    return measured(job, load, job.run())


def watched(load: Load, launcher: Path, place: Path, faults: Sequence[str] = (), limit_s: float = 600.0) -> ObservedJob:
    """The job, built and not run yet."""
    parsed = [Fault.parse(text) for text in faults]
    return ObservedJob(CLUSTER, [str(launcher), *load.arguments], place, faults=parsed, max_run_s=limit_s, clock=SYSTEM)


def measured(job: ObservedJob, load: Load, summary: RunSummary) -> LongRun:
    """The measurements of a run of `job`. Raises JobFailed."""
    if summary.exit_code or not job.steps or not job.epoch_ends:
        raise JobFailed(f"a run of {' '.join(load.arguments)} failed: {summary.cause}", code=summary.exit_code or 1)
    first = job.steps[0]
    total = sum(int(epoch["examples"]) for epoch in summary.epochs)
    events = job.folder.events()
    return LongRun(
        load,
        summary,
        job.epoch_ends[-1].at_s - first.at_s,
        total - first.step * BATCH,
        sum(event["event"] == "fault.injected" for event in events),
        tuple((round(moment.at_s - first.at_s, 3), moment.step) for moment in job.steps),
    )
