"""The wait of a run's measured steps, divided into what has different cures: epoch starts, stalls and the steady state.

A wait stands out if it is longer than the usual wait, which is the median, by more than each of these:

- `FAR_MADS` times the median absolute deviation from it, scaled to the standard deviation of a normal distribution: the
  outlier rule of Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993), which outliers cannot move;
- what every tenth step waits (p90): a pipeline that delivers in bursts makes every fourth or eighth step wait, by which
  median and deviation may both be 0, and that is its steady state;
- `LEAST_S`: a process that is not scheduled at once is that late.

In the first `WARM_UP_STEPS` steps of an epoch after the first, such a wait is an **epoch start**: buffers fill again.
Elsewhere it is a **stall** if it is also longer than `STALL_STEPS` median steps: buffers hold some batches ahead, and
less than that is jitter. Both count with what they exceed the usual wait by, which is what their cure would save; all
other wait is that of the **steady state**. The three add up to the wait of all measured steps.

    >>> from tfhet.record import StepTime, Waiting
    >>> steps = [StepTime(0.1, 0.01, epoch=at // 20) for at in range(39)] + [StepTime(4.1, 4.01, epoch=1)]
    >>> found = Waiting.of(steps)
    >>> round(found.mean_pct, 1), round(found.median_pct, 1), round(found.steady_pct, 1)
    (55.0, 10.0, 10.0)
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tfhet.record.run import RunSummary
from tfhet.record.statistics import median, percentile
from tfhet.record.step_time import WARM_UP_STEPS, StepTime, measured_steps

FAR_MADS = 3.5
"""Number of scaled median absolute deviations from which a wait stands out."""
LEAST_S = 0.01
"""Seconds beyond the usual wait from which a wait can stand out."""
STALL_STEPS = 3.0
"""Number of median steps beyond the usual wait from which a wait is a stall."""
LEAST_STEPS = 5
"""Number of steps outside of epoch starts below which the wait is not divided: too few to say what is usual."""
_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
_MOST_S, _LEAST_S = 1e12, 1e-12
"""A step that lasts longer holds a broken number, and counts as none; the least time that anything is a share of."""


@dataclass(frozen=True)
class WaitPart:
    """The part of the wait that has one cause."""

    waits_s: Sequence[float] = ()
    """Seconds of each wait that belong to this part; of the steady state, of each step."""
    total_s: float = 0.0
    """Sum in seconds, also of the steps between two metric lines."""
    share_pct: float = 0.0
    mean_s: float = 0.0
    """Mean of the waits; of the steady state, of the wait of a step."""
    steps: Sequence[int] = ()
    """Index of the measured step, or metric line, of each wait; () for the steady state, which is all."""

    @property
    def faster(self) -> float:
        """Ratio by which the run would be faster without this part; infinite where there is nothing else."""
        return 100.0 / (100.0 - self.share_pct) if self.share_pct < 100.0 else math.inf


@dataclass(frozen=True)
class Waiting:
    mean_pct: float | None = None
    """Share of the steps' time, 0 to 100; None where it is not known. Likewise the two below."""
    median_pct: float | None = None
    """Median over the steps of the share of a step."""
    steady_pct: float | None = None
    """Share of the steps' time that is left when epoch starts and stalls are taken out of both."""
    steady: WaitPart = field(default_factory=WaitPart)
    epoch_starts: WaitPart = field(default_factory=WaitPart)
    stalls: WaitPart = field(default_factory=WaitPart)
    entries: Sequence[StepTime] = ()
    """The measured steps, or the mean steps of metric lines."""
    is_divided: bool = False
    """Whether there are steps enough to say what is usual."""
    stretch: float = 1
    """Number of steps in each of `entries`."""

    @classmethod
    def of(cls, steps: Sequence[StepTime], *, stretch: float = 1, mean_pct: float | None = None) -> Waiting:
        """Divides the wait of measured steps of one rank. stretch: number of steps of which each of `steps` is the
        mean. mean_pct: the share of all ranks; what other ranks wait beyond this one counts as steady."""
        durs_s = [step.dur_s if 0 < step.dur_s < _MOST_S else 0.0 for step in steps]
        waits_s = [max(0.0, min(dur_s, step.wait_s)) for dur_s, step in zip(durs_s, steps, strict=True)]
        times = [stretch * step.times for step in steps]
        whole_s = sum(map(operator.mul, times, durs_s))
        if not whole_s:
            return cls(mean_pct, None, mean_pct)
        filling = _filling([step.epoch for step in steps], math.ceil(WARM_UP_STEPS / stretch))
        rest = [at for at in range(len(steps)) if at not in filling]
        usual_s, starts, stalls = 0.0, dict[int, float](), dict[int, float]()
        if len(rest) >= LEAST_STEPS:
            usual_s = median([waits_s[at] for at in rest])
            deviation_s = _NORMAL * median([abs(waits_s[at] - usual_s) for at in rest])
            often_s = percentile([waits_s[at] for at in rest], 90) - usual_s
            far_s = max(FAR_MADS * deviation_s, often_s, LEAST_S / stretch)
            stall_s = max(far_s, STALL_STEPS / stretch * median([durs_s[at] for at in rest]))
            beyond_s = {at: wait_s - usual_s for at, wait_s in enumerate(waits_s)}
            starts = {at: beyond_s[at] for at in sorted(filling) if beyond_s[at] > far_s}
            stalls = {at: beyond_s[at] for at in rest if beyond_s[at] > stall_s}
        shares = [100.0 * wait_s / dur_s if dur_s else 0.0 for wait_s, dur_s in zip(waits_s, durs_s, strict=True)]
        out_s = sum(times[at] * wait_s for at, wait_s in [*starts.items(), *stalls.items()])
        mean_pct = 100.0 * sum(map(operator.mul, times, waits_s)) / whole_s if mean_pct is None else mean_pct
        steady_s = max(0.0, min(100.0, mean_pct) / 100.0 * whole_s - out_s)
        usual = [usual_s if at in starts or at in stalls else wait_s for at, wait_s in enumerate(waits_s)]

        def part(found: dict[int, float]) -> WaitPart:
            total_s = sum(times[at] * wait_s for at, wait_s in found.items())
            each_s = tuple(stretch * wait_s for wait_s in found.values())
            count = sum(steps[at].times for at in found)
            return WaitPart(each_s, total_s, 100.0 * total_s / whole_s, total_s / max(1, count), tuple(found))

        return cls(
            mean_pct,
            median(shares),
            min(100.0, 100.0 * steady_s / max(whole_s - out_s, _LEAST_S)) if out_s else mean_pct,
            WaitPart(tuple(usual), steady_s, 100.0 * steady_s / whole_s, steady_s / sum(times)),
            part(starts),
            part(stalls),
            tuple(steps),
            len(rest) >= LEAST_STEPS,
            stretch,
        )

    @classmethod
    def of_run(cls, run: RunSummary, steps: Sequence[StepTime] = ()) -> Waiting:
        """Divides the wait of a run. In a run of `tfhet watch` it is the wait of the rank that waits most: its ranks
        exchange gradients, so all are as slow. steps: the steps of its timeline, of any ranks; without them its summary
        has to do."""
        slowest = max(run.by_rank, key=lambda each: each["wait_pct"], default=None) if run.watched else None
        whole_pct = slowest["wait_pct"] if slowest else run.wait_pct
        if steps:
            rank = slowest["rank"] if slowest else min(step.rank for step in steps)
            return cls.of(measured_steps([step for step in steps if step.rank == rank]), mean_pct=whole_pct)
        durs_ms, waits_ms = (spread.samples if spread else () for spread in (run.step_ms, run.wait_ms))
        if run.slow_steps:
            return cls.of(_sampled(run, durs_ms, waits_ms), mean_pct=whole_pct)
        counts = [epoch.get("steps") for epoch in run.epochs]
        ends = list(itertools.accumulate(n for n in counts if isinstance(n, (int, float)) and 0 < n < _MOST_S))
        taken, found = (ends[-1] if ends else 0) or run.steps or 0, min(len(durs_ms), len(waits_ms))
        # A followed job has a sample for each metric line but the first; other runs have one for each measured step.
        stretch = max(1, round(taken / (found + 1))) if found + WARM_UP_STEPS < taken else 1
        skipped = stretch if stretch > 1 else max(0, taken - found)
        return cls.of(
            [
                StepTime(dur_ms / 1e3, wait_ms / 1e3, epoch=bisect.bisect_left(ends, skipped + stretch * (at + 1)))
                for at, (dur_ms, wait_ms) in enumerate(zip(durs_ms, waits_ms, strict=False))
            ],
            stretch=stretch,
            mean_pct=whole_pct,
        )


def _sampled(run: RunSummary, durs_ms: Sequence[float], waits_ms: Sequence[float]) -> list[StepTime]:
    """The steps of a long run: those that waited longest, and a sample that stands for all others."""
    slow = [StepTime(each["dur_ms"] / 1e3, each["wait_ms"] / 1e3, step=int(each["step"])) for each in run.slow_steps]
    least_s = min(step.wait_s for step in slow)
    usual = [
        StepTime(dur_ms / 1e3, wait_ms / 1e3)
        for dur_ms, wait_ms in zip(durs_ms, waits_ms, strict=False)
        if wait_ms / 1e3 <= least_s
    ]
    times = max(1, round(((run.steps or 0) - len(slow)) / max(1, len(usual))))
    return [*(replace(step, times=times) for step in usual), *slow]


def _filling(epochs: Sequence[int], count: int) -> set[int]:
    """Indices of the first `count` steps of each epoch after the first."""
    begins = [at for at in range(1, len(epochs)) if epochs[at] != epochs[at - 1]]
    return {at for begin in begins for at in range(begin, min(begin + count, len(epochs)))}
