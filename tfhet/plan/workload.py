"""Demand of training, on whatever cluster: the input pipeline at each cut, the training step, the data plane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tfhet.errors import UsageError, unknown
from tfhet.plan.memory import UNKNOWN, MemoryNeed
from tfhet.planes import PlaneCosts
from tfhet.profile import Profile
from tfhet.record import Figure, Interval

DECLARED = ("Source", "Stage")
"""Kinds of the parts of a declared pipeline, which can be cut after each part."""


@dataclass(frozen=True)
class CutCost:
    """Cost of a pipeline that is cut at one place. CPU microseconds are those of the CPU that was profiled."""

    last_part: str
    position: int
    """Number of stages before the cut, as the trainer's `--cut` takes it."""
    remote_us: Interval
    """CPU microseconds per example before the cut."""
    local_us: Interval
    """CPU microseconds per example after the cut."""
    bytes_per_example: float
    """Bytes that travel, with labels and ids."""
    dtype: str = "float32"
    """Dtype of most of these bytes; the more expensive one where a profile does not say."""


@dataclass(frozen=True)
class PipelineCost:
    cuts: tuple[CutCost, ...]
    """Places where it can be cut, in order, at least one; the last one has the whole pipeline before it."""
    source_bytes: float = 0.0
    """Bytes per example that the source reads."""

    @classmethod
    def of(cls, profile: Profile) -> PipelineCost:
        """Returns what was profiled. A declared pipeline can be cut after each part, a plain data set at its end."""
        costs, cuts, position = profile.costs, [], 0
        for index, cost in enumerate(costs):
            position += cost.name.count("; ") + 1 if index else 0
            if cost.kind not in DECLARED and index < len(costs) - 1:
                continue
            rest_us = [all_of - us for all_of, us in zip(costs[-1].cumulative_us, cost.cumulative_us, strict=True)]
            remote_us, local_us = (Interval.of(Figure.of(us, unit="us")) for us in (cost.cumulative_us, rest_us))
            size = float(cost.bytes_per_example)
            cuts.append(CutCost(cost.name, position, remote_us, local_us, size, cost.dtype or "float32"))
        return cls(tuple(cuts), float(costs[0].bytes_per_example))

    @property
    def whole_us(self) -> Interval:
        return self.cuts[-1].remote_us

    @property
    def smallest_cut(self) -> int:
        """Index of the latest cut with the fewest bytes, which a job takes that is given no other. The size of
        encoded images is not known beforehand, so they count as larger than any others."""
        sizes = [(cut.dtype == "string", cut.bytes_per_example) for cut in self.cuts]
        return len(sizes) - 1 - sizes[::-1].index(min(sizes))

    def cheaper_by(self, saves_us: float) -> PipelineCost:
        """Returns the pipeline with stages that save `saves_us` CPU microseconds per example, at every cut in part."""
        return self.cpu_times(max(0.0, 1.0 - saves_us / self.whole_us.value) if self.whole_us.value else 1.0)

    def cpu_times(self, factor: float) -> PipelineCost:
        """Returns the pipeline with all stages at `factor` times their cost."""
        costs = ((cut, cut.remote_us.times(factor), cut.local_us.times(factor)) for cut in self.cuts)
        return replace(self, cuts=tuple(replace(cut, remote_us=before, local_us=after) for cut, before, after in costs))


@dataclass(frozen=True)
class Trainer:
    """The training step of one rank. Raises UsageError for a batch without examples, or no accelerator."""

    accelerator_ms: Mapping[str, Interval]
    """Milliseconds of a step with data at hand, allreduce included, by kind of accelerator (`A100`; "" for none)."""
    batch_size: int
    cpu_ms: Interval = Interval.exact(0.0)
    """CPU milliseconds per step of the training process itself."""

    def __post_init__(self) -> None:
        if self.batch_size < 1 or not self.accelerator_ms:
            raise UsageError("a trainer needs a batch size from 1 up, and the step of at least one kind of accelerator")

    def step_ms(self, kind: str | None) -> Interval:
        """Milliseconds of a step on one kind of accelerator. Raises UsageError for a kind whose step is not known."""
        if (kind or "") not in self.accelerator_ms:
            unknown("accelerator", kind or "none", (name or "none" for name in self.accelerator_ms))
        return self.accelerator_ms[kind or ""]


@dataclass(frozen=True)
class Workload:
    pipeline: PipelineCost
    trainer: Trainer
    plane_costs: PlaneCosts
    """Costs of the data plane that moves batches from data hosts to ranks."""
    overhead: Interval = Interval.exact(1.0)
    """CPU that a job takes of its hosts over the CPU of its stages and of moving batches: 1 where nothing is lost."""
    source_bytes_per_s: float | None = None
    """Bytes per second that one host can read; None where no limit is known."""
    launcher_cpus: Interval = Interval.exact(0.0)
    """CPUs of the profiled kind that the launcher of every host takes all the time."""
    only_cut: int | None = None
    """Index of the only cut that the job can take; None where it can be given any."""
    memory: MemoryNeed = UNKNOWN
