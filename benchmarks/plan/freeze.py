"""The inputs of the model of `benchmarks.plan`: measured before a case is drawn, and not touched from then on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.plan.case import Frozen, Measured, PlanCase, PlanLoad
from benchmarks.plan.gauge import Gauge, at_speed, batches_s
from benchmarks.plan.measured import measured, reference_of
from benchmarks.plan.outcome import PlanOutcome
from benchmarks.plan.phase import DRAWN
from benchmarks.plan.yardstick import Pace, Yardstick
from tfhet.bench.harness import report
from tfhet.clock import SYSTEM
from tfhet.errors import UsageError
from tfhet.events import Observer
from tfhet.plan import Interval
from tfhet.plan import Where as Place
from tfhet.plan.ceiling import Resource
from tfhet.record import Record, median

TRIED = (
    (Place.TRAINER, 0.5, 0.2, 0),
    (Place.DATA, 0.5, 0.25, 2),
    (Place.EVERYWHERE, 0.25, 0.25, 2),
)
"""Where, CPUs of the dnn host and of a data host, data hosts: runs that tell what a job takes over its parts."""
TRIED_FED, FED = (Place.DATA, 0.5, 0.3, 2), 1.6
"""And one whose accelerator takes so much longer than the input: what a step takes with data at hand."""
TRIED_S = 6.0


def freeze(
    alone: Gauge,
    yard: Yardstick,
    written: Mapping[PlanLoad, Path],
    place: Path,
    scaling: Path | None,
    observer: Observer,
) -> Frozen:
    """The model's inputs: the parts alone, and what a job takes over them. Raises TfhetError."""
    chains = list(dict.fromkeys(load.chain for load in written))
    rounds = len(written) + len(chains) * (len(TRIED) + 1)

    def tell(what: str, number: int, seconds: float, said: str) -> None:
        report(observer, what, number, rounds, [said], seconds)

    measured_apart: dict[PlanLoad, tuple[Mapping[str, Any], Pace]] = {}
    for load in written:
        begin_s = SYSTEM.monotonic()
        measured_apart[load] = _costs(alone, yard, load, written)
        seconds = SYSTEM.monotonic() - begin_s
        tell(f"{load.key}, apart", len(measured_apart), seconds, f"{len(measured_apart[load][0]['cuts'])} cuts")
    usual_s = {
        chain: median([one for load in written if load.chain == chain for one in batches_s(*measured_apart[load])])
        for chain in chains
    }
    loads = {load: Measured.of(load, at_speed(*found, usual_s[load.chain])) for load, found in measured_apart.items()}
    frozen = Frozen(loads)
    tried: list[Tried] = []
    for load in {load.chain: load for load in written}.values():  # the largest of each chain
        for layout in (*TRIED, TRIED_FED):
            case = _tried(load, frozen, *layout)
            if layout is TRIED_FED:
                ratio = median([one.ratio(frozen) for one in tried if one.outcome.case.load is load])
                case = replace(case, accelerator_ms=FED * 1e3 * ratio * case.prediction(frozen).step_s.value)
            outcome = measured(case, frozen, yard, written, place, TRIED_S, name=f"tried-{len(tried)}", whole=False)
            tried.append(Tried(outcome, layout is TRIED_FED))
            said = f"{outcome.ran.steps_ms[DRAWN]:.0f} ms measured"
            tell(f"{load.key}, {layout[0].value}", len(written) + len(tried), outcome.ran.seconds, said)
    beside_s = {
        chain: median([s for one in tried if one.chain == chain for s in one.outcome.references_s]) for chain in chains
    }
    frozen = replace(frozen, references_s=beside_s)
    ratios = {chain: [one.ratio(frozen) for one in tried if one.chain == chain and not one.is_fed] for chain in chains}
    overhead = {chain: _spread(each) for chain, each in ratios.items()}
    return replace(
        frozen,
        overhead=overhead if scaling is None else dict.fromkeys(chains, over_ideal(Record.read(scaling))),
        launcher_cpus=_spread([one.outcome.ran.launcher_cpus for one in tried]),
        extra_ms=_spread([one.extra_ms for one in tried if one.is_fed]),
        runs=[one.outcome.told() for one in tried],
    )


def over_ideal(record: Record) -> Interval:
    """Returns the CPU of a job over that of its parts alone: the median, minimum and maximum of all points in a record
    of the scaling benchmark. Raises UsageError for another record."""
    ratios = [record.figures[point["figure"]].value for point in record.details.get("over_ideal", ())]
    if not ratios:
        raise UsageError(f"the record is of {record.name!r}; give one of the scaling benchmark")
    return Interval(median(ratios), min(ratios), max(ratios))


@dataclass(frozen=True)
class Tried:
    """A run that is no case. It tells what a job takes over its parts; or, with a slow accelerator, beside that."""

    outcome: PlanOutcome
    is_fed: bool

    @property
    def chain(self) -> str:
        return self.outcome.case.load.chain

    @property
    def extra_ms(self) -> float:
        """Milliseconds of a step beyond those of the accelerator."""
        return max(0.0, self.outcome.ran.steps_ms[DRAWN] - self.outcome.case.accelerator_ms)

    def ratio(self, frozen: Frozen) -> float:
        """The measured step over the model's without this ratio, at the machine's speed where that is known."""
        found = self.outcome.prediction(frozen, corrected=self.chain in frozen.references_s)
        return 1e-3 * self.outcome.ran.steps_ms[DRAWN] / found.step_s.value


def _costs(
    alone: Gauge, yard: Yardstick, load: PlanLoad, written: Mapping[PlanLoad, Path]
) -> tuple[Mapping[str, Any], Pace]:
    reference = reference_of(load)
    with yard.beside(reference.chain, reference.batch_size, written[reference]) as pace:
        said = alone.costs(load, written[load])
    return said, pace[0]


def _spread(samples: Sequence[float]) -> Interval:
    return Interval(median(samples), min(samples), max(samples))


def _tried(load: PlanLoad, frozen: Frozen, place: Place, dnn: float, data: float, hosts: int) -> PlanCase:
    """With an accelerator that takes no time, at the usual cut."""
    measured = frozen.loads[load]
    at = measured.pipeline.smallest_cut
    position = measured.pipeline.cuts[at].position
    return PlanCase(0, Resource.ALL_CPUS, 0.0, load, place, at, position, dnn, data, hosts, 1, 1e-3)
