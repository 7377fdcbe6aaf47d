"""The inputs of the model of `benchmarks.plan`, measured before a case is drawn: from then on only what the batches of
a case cost apart is measured again, right before its run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.cluster_runs.cold_loads import Calm
from benchmarks.plan.case import TRIED, Frozen, Measured, PlanCase, PlanLoad
from benchmarks.plan.gauge import Gauge
from benchmarks.plan.measured import measured
from benchmarks.plan.outcome import PlanOutcome
from benchmarks.plan.phase import DRAWN
from tfhet.bench.harness import report
from tfhet.clock import SYSTEM
from tfhet.events import Observer
from tfhet.plan import Where as Place
from tfhet.plan.ceiling import Resource
from tfhet.record import Interval, median

LAYOUTS = (
    (Place.TRAINER, 0.5, 0.2, 0),
    (Place.DATA, 0.5, 0.25, 2),
    (Place.EVERYWHERE, 0.25, 0.25, 2),
)
"""Where, CPUs of the dnn host and of a data host, data hosts: runs that tell what a job takes over its parts."""
TIMES = 2
"""Times that each of them is run."""
FED_LAYOUT, FED = (Place.DATA, 0.5, 0.3, 2), 1.6
"""And one whose accelerator takes so much longer than the input: what a step takes with data at hand."""
TRIED_S = 6.0


def freeze(alone: Gauge, calm: Calm, written: Mapping[PlanLoad, Path], place: Path, observer: Observer) -> Frozen:
    """The model's inputs: the parts alone, and what a job of some of the loads takes over them. Raises TfhetError."""
    rounds = len(written) + len(TRIED) * (TIMES * len(LAYOUTS) + 1)
    numbers = itertools.count(1)

    def tell(what: str, seconds: float, said: str) -> None:
        report(observer, what, next(numbers), rounds, [said], seconds)

    loads = {}
    for load in written:
        calm.wait()
        begin_s = SYSTEM.monotonic()
        loads[load] = Measured.of(load, alone.costs(load, written[load]))
        tell(f"{load.key}, apart", SYSTEM.monotonic() - begin_s, f"{len(loads[load].sizes)} cuts")
    frozen = Frozen(loads)
    tried: list[Tried] = []
    for load, layout in itertools.product(TRIED, (*TIMES * LAYOUTS, FED_LAYOUT)):
        case = _tried(load, frozen, *layout)
        if layout is FED_LAYOUT:
            before = [one for one in tried if one.outcome.case.load is load]
            ratio, now = median([one.ratio(frozen) for one in before]), frozen.renewed(load, before[-1].outcome.costs)
            case = replace(case, accelerator_ms=FED * 1e3 * ratio * case.prediction(now).step_s.value)
        outcome = measured(case, alone, calm, frozen, written, place, TRIED_S, name=f"tried-{len(tried)}", whole=False)
        tried.append(Tried(outcome, layout is FED_LAYOUT))
        said = (
            f"{outcome.ran.steps_ms[DRAWN]:.0f} ms measured, {1e3 * outcome.prediction(frozen).step_s.value:.0f} apart"
        )
        tell(f"{load.key}, {layout[0].value}", outcome.ran.seconds, said)
    frozen = replace(frozen, launcher_cpus=_spread([one.outcome.ran.launcher_cpus for one in tried]))
    return replace(
        frozen,
        overhead=_spread([one.ratio(frozen) for one in tried if not one.is_fed]),
        extra_ms=_spread([one.extra_ms for one in tried if one.is_fed]),
        runs=[one.outcome.told() for one in tried],
    )


@dataclass(frozen=True)
class Tried:
    """A run that is no case. It tells what a job takes over its parts; or, with a slow accelerator, beside that."""

    outcome: PlanOutcome
    is_fed: bool

    @property
    def extra_ms(self) -> float:
        """Milliseconds of a step beyond those of the accelerator."""
        return max(0.0, self.outcome.ran.steps_ms[DRAWN] - self.outcome.case.accelerator_ms)

    def ratio(self, frozen: Frozen) -> float:
        """The measured step over the model's without this ratio."""
        return 1e-3 * self.outcome.ran.steps_ms[DRAWN] / self.outcome.prediction(frozen).step_s.value


def _spread(samples: Sequence[float]) -> Interval:
    return Interval(median(samples), min(samples), max(samples))


def _tried(load: PlanLoad, frozen: Frozen, place: Place, dnn: float, data: float, hosts: int) -> PlanCase:
    """With an accelerator that takes no time, at the usual cut."""
    measured = frozen.loads[load]
    at = measured.pipeline.smallest_cut
    position = measured.pipeline.cuts[at].position
    return PlanCase(0, Resource.ALL_CPUS, 0.0, load, place, at, position, dnn, data, hosts, 1, 1e-3)
