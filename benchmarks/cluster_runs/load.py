"""The loads of `benchmarks.scaling`: which chain, written how, in batches of how many."""

from __future__ import annotations

import math
from dataclasses import dataclass

FORMS = ("own", "example")
"""A declared pipeline in the built-in trainer; or one map per step over single images, batch last, and
`tfhet.distribute` in a script."""
BUFFERED = 4
"""Batches for each worker that may be ready, at most, when the limits begin to hold: what a worker holds, and what a
reader holds for it."""
MOST_RECEIVING = 0.5
LINE_STEPS = 8
"""Steps between two metric lines."""


@dataclass(frozen=True)
class ScalingLoad:
    """One chain in one form."""

    chain: str
    form: str
    batch_size: int
    image_words: str
    """What is read."""

    @property
    def key(self) -> str:
        """Its part of a figure's name: `aws_cifar.own`."""
        return f"{self.chain.replace('-', '_')}.{self.form}"

    @property
    def words(self) -> str:
        return f"{self.chain}, {'as the example writes it' if self.form == 'example' else 'tfhet'}"

    def arguments(self, step_s: float, steps: int) -> list[str]:
        """Of the launcher, for so many steps that take `step_s` each."""
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
    ScalingLoad("aws-cifar", "example", 512, "digits, 32x32x3, raw"),
    ScalingLoad("aws-cifar", "own", 2048, "digits, 32x32x3, raw"),
    ScalingLoad("imagenet-train", "example", 48, "photos, JPEG"),
    ScalingLoad("imagenet-train", "own", 128, "photos, JPEG"),
)


@dataclass(frozen=True)
class Course:
    """The steps of one run."""

    skipped: int
    """First steps, which drain what was ready before the limits held."""
    measured: int

    @classmethod
    def of(cls, workers: int, ideal_s: float, seconds: float) -> Course:
        """About so many seconds of measured steps that take at least `ideal_s`; both parts end with a metric line."""
        measured = min(max(3 * LINE_STEPS, seconds / ideal_s), 8 * LINE_STEPS)
        return cls(_whole(BUFFERED * workers + LINE_STEPS), _whole(measured))

    @property
    def steps(self) -> int:
        # The last step's sums are read when it has ended: one more, so that the last line comes within the run.
        return self.skipped + self.measured + 1


def _whole(steps: float) -> int:
    return LINE_STEPS * math.ceil(steps / LINE_STEPS)


@dataclass(frozen=True)
class Ideal:
    """What a batch takes at least."""

    stages_s: float
    """CPU seconds of a batch through the pipeline alone, in one process."""
    wire_s: float
    """CPU seconds of moving it, worker and reader together."""
    reader_s: float
    """The part of `wire_s` that the dnn host has."""
    step_s: float
    """Of the emulated accelerator."""
    cpus: float
    """Of each host."""

    @classmethod
    def bound_by_input_until(cls, stages_s: float, wire_s: float, reader_s: float, cpus: float, hosts: float) -> Ideal:
        """With an accelerator whose step takes as long as so many hosts, a fraction too, need for a batch; but no
        faster one than a dnn host can receive for with MOST_RECEIVING of its CPU."""
        fed_s, received_s = (stages_s + wire_s) / (cpus * hosts), reader_s / (cpus * MOST_RECEIVING)
        return cls(stages_s, wire_s, reader_s, max(fed_s, received_s), cpus)

    def corrected(self, stages_s: float, wire_s: float, reader_s: float) -> Ideal:
        """With other costs, and the same accelerator."""
        return Ideal(stages_s, wire_s, reader_s, self.step_s, self.cpus)

    def at(self, data_hosts: int) -> float:
        """Seconds a step takes at least, beside so many data hosts."""
        return max(self.step_s, (self.stages_s + self.wire_s) / (self.cpus * (data_hosts + 1)))

    def without_wire_at(self, data_hosts: int) -> float:
        """The same if batches moved by themselves."""
        return max(self.step_s, self.stages_s / (self.cpus * (data_hosts + 1)))
