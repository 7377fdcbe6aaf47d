"""What training asks for, whatever it runs on: the input pipeline at each cut, the training step, the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tfhet.errors import UsageError, unknown
from tfhet.plan.interval import Interval
from tfhet.plan.wire import ASSUMED_WIRE, Wire
from tfhet.profile.result import Profile
from tfhet.record import Figure

SPLIT_S = Interval(0.0002, 0.0001, 0.0005)
"""Assumed: CPU seconds of the dispatcher to hand out one split."""
DECLARED = ("Source", "Stage")
"""Kinds of the parts of a declared pipeline, which can be cut behind each."""


@dataclass(frozen=True)
class CutCost:
    """The pipeline, cut at one place. CPU microseconds are those of the CPU that was profiled."""

    behind: str
    """The last part before the cut."""
    position: int
    """As `--cut` of the trainer takes it: how many stages lie before."""
    remote_us: Interval
    """CPU per example before the cut."""
    local_us: Interval
    """CPU per example behind it."""
    bytes_per_example: float
    """That travel; labels and ids too."""
    dtype: str = "float32"
    """Of most of these bytes; where a profile does not say, the one that costs more."""


@dataclass(frozen=True)
class PipelineCost:
    """An input pipeline. Raises UsageError without a cut."""

    cuts: tuple[CutCost, ...]
    """In order; the last has all of the pipeline before it."""
    source_bytes: float = 0.0
    """Per example, as the source hands it out."""
    splits_per_example: float = 0.0
    """1 where each example is a split of its own; about 0 where a split is a file of many."""

    def __post_init__(self) -> None:
        if not self.cuts:
            raise UsageError("a pipeline has at least one place to be cut: its end")

    @classmethod
    def of(cls, profile: Profile) -> PipelineCost:
        """From a profile. A declared pipeline can be cut behind each part, a plain data set at its end only."""
        costs = profile.costs
        whole_us = costs[-1].cumulative_us
        cuts, position = [], 0
        for index, cost in enumerate(costs):
            position += cost.name.count("; ") + 1 if index else 0
            if costs[index].kind not in DECLARED and index < len(costs) - 1:
                continue
            rest_us = [after - before for after, before in zip(whole_us, cost.cumulative_us, strict=True)]
            remote_us, local_us = (Interval.of(Figure.of(us, unit="us")) for us in (cost.cumulative_us, rest_us))
            size = float(cost.bytes_per_example)
            cuts.append(CutCost(cost.name, position, remote_us, local_us, size, cost.dtype or "float32"))
        return cls(tuple(cuts), float(costs[0].bytes_per_example))

    @property
    def whole_us(self) -> Interval:
        """CPU per example of all of it."""
        return self.cuts[-1].remote_us

    def cheaper_by(self, saves_us: float) -> PipelineCost:
        """With stages that cost so much less, before whatever cut."""
        part = max(0.0, 1.0 - saves_us / self.whole_us.value) if self.whole_us.value else 1.0
        return self.cpu_times(part)

    def cpu_times(self, factor: float) -> PipelineCost:
        """With all stages at `factor` times their cost."""
        cuts = (
            replace(cut, remote_us=cut.remote_us.times(factor), local_us=cut.local_us.times(factor))
            for cut in self.cuts
        )
        return replace(self, cuts=tuple(cuts))

    def bytes_times(self, factor: float) -> PipelineCost:
        """With `factor` times the bytes at every cut."""
        cuts = (replace(cut, bytes_per_example=cut.bytes_per_example * factor) for cut in self.cuts)
        return replace(self, cuts=tuple(cuts))


@dataclass(frozen=True)
class Trainer:
    """The training step of one rank. Raises UsageError for a batch without examples, or no accelerator."""

    accelerator_ms: Mapping[str, Interval]
    """By kind of accelerator (`A100`; "" for hosts without): a step with data at hand, allreduce and all."""
    batch_size: int
    """Examples of one rank and step."""
    cpu_ms: Interval = Interval.exact(0.0)
    """CPU of the training process itself, per step."""

    def __post_init__(self) -> None:
        if self.batch_size < 1 or not self.accelerator_ms:
            raise UsageError("a trainer needs a batch size from 1 up, and the step of at least one kind of accelerator")

    def step_ms(self, kind: str | None) -> Interval:
        """Raises UsageError for a kind whose step nobody stated."""
        if (kind or "") not in self.accelerator_ms:
            unknown("accelerator", kind or "none", (name or "none" for name in self.accelerator_ms))
        return self.accelerator_ms[kind or ""]

    def step_times(self, factor: float) -> Trainer:
        """With steps of `factor` times the length."""
        longer = {kind: step.times(factor) for kind, step in self.accelerator_ms.items()}
        return replace(self, accelerator_ms=longer)


@dataclass(frozen=True)
class Workload:
    """All that a step costs."""

    pipeline: PipelineCost
    trainer: Trainer
    wire: Wire = ASSUMED_WIRE
    overhead: Interval = Interval.exact(1.0)
    """Times the CPU of stages and wire that a job takes of its hosts: 1 where nothing is lost."""
    source_bytes_per_s: float | None = None
    """That one host can read; None: no limit is known."""
    launcher_cpus: Interval = Interval.exact(0.0)
    """CPUs of the profiled kind that the launcher of every host takes all the time."""
