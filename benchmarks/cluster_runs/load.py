"""The loads of `benchmarks.scaling`: which chain, written how, in batches of how many."""

from __future__ import annotations

import math
from dataclasses import dataclass

BUFFERED = 4
"""Batches for each worker that may be ready, at most, when the limits begin to hold: what a worker holds, and what a
reader holds for it."""
LINE_STEPS = 8
"""Steps between two metric lines."""


@dataclass(frozen=True)
class ScalingLoad:
    """One chain in one form."""

    chain: str
    form: str
    """`own`: a declared pipeline in the built-in trainer; `example`: one map per step over single images, batch last,
    and `tfhet.distribute` in a script."""
    batch_size: int
    ranks: int = 1
    """Hosts with a rank each, which meet by Horovod in every step; the batch size is that of one."""

    @property
    def key(self) -> str:
        """Its part of a figure's name: `aws_cifar.own`."""
        return f"{self.chain.replace('-', '_')}.{self.form}" + (f".ranks_{self.ranks}" if self.ranks > 1 else "")

    @property
    def words(self) -> str:
        written = "as the example writes it" if self.form == "example" else "tfhet"
        return f"{self.chain}, {written}" + (f", {self.ranks} ranks" if self.ranks > 1 else "")

    def arguments(self, steps: int, step_s: float = 0.0) -> list[str]:
        """The launcher's arguments, for so many steps of an accelerator that takes `step_s` each."""
        words = [
            *("--batch_size", str(self.batch_size), "--steps_per_epoch", str(steps), "--epochs", "1"),
            *("--step_ms", f"{1e3 * step_s:.4f}", "--log_every", str(LINE_STEPS), "--chain", self.chain),
            *["--data_host_workers", "1", "--dnn_host_workers", "1"],
        ]
        if self.form == "example":
            return [*words, "--train_script", "scaling_train.py"]
        fixed = "--model emulated --shuffle 0 --validation none --export false --checkpoint_every_epochs 0"
        return [*words, *fixed.split()]


LOADS = (
    ScalingLoad("aws-cifar", "example", 128),
    ScalingLoad("aws-cifar", "own", 1024),
    ScalingLoad("imagenet-train", "example", 16),
    ScalingLoad("imagenet-train", "own", 32),
    ScalingLoad("imagenet-train", "own", 32, ranks=2),
)


@dataclass(frozen=True)
class Course:
    """The steps of one run."""

    skipped: int
    """First steps, which drain what was ready before the limits held."""
    measured: int

    @classmethod
    def of(cls, workers: int, ideal_s: float, seconds: float, lines: int = 8) -> Course:
        """About so many seconds of measured steps that take at least `ideal_s`; both parts end with a metric line.
        lines: of these in the measured part, at most."""
        measured = min(max(3 * LINE_STEPS, seconds / ideal_s), lines * LINE_STEPS)
        return cls(_whole(BUFFERED * workers + LINE_STEPS), _whole(measured))

    @property
    def steps(self) -> int:
        # The last step's sums are read when it has ended: one more, so that the last line comes within the run.
        return self.skipped + self.measured + 1


def _whole(steps: float) -> int:
    return LINE_STEPS * math.ceil(steps / LINE_STEPS)


@dataclass(frozen=True)
class Ideal:
    """The least that a batch takes, from its parts, each measured apart and without a quota."""

    stages_s: float
    """CPU seconds of a batch through the pipeline alone, in one process."""
    wire_s: float
    """CPU seconds of moving it, worker and reader together."""
    trainer_s: float
    """CPU seconds that only the dnn host can give: the reader's part of `wire_s`, and the stages after the cut, which
    are part of `stages_s`."""
    cpus: float
    """CPUs of each host."""
    ranks: int = 1
    """Hosts that train, each of which takes a batch in a step."""

    def at(self, data_hosts: int) -> float:
        """Seconds a step takes at least, beside so many data hosts."""
        shared_s = self.ranks * (self.stages_s + self.wire_s) / (self.cpus * (data_hosts + self.ranks))
        return max(shared_s, self.trainer_s / self.cpus)

    def without_wire_at(self, data_hosts: int) -> float:
        """The same if batches moved by themselves and every host could do any part."""
        return self.ranks * self.stages_s / (self.cpus * (data_hosts + self.ranks))
