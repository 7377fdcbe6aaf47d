"""How the cases of `benchmarks.plan` are drawn: from a seed, and from the frozen model.

The resources that are to bind take turns. For each, load, cut, hosts, CPUs and workers are drawn at random until the
model's CPUs need a time in bounds; then the accelerator's step and the networks' limits are chosen so that the wanted
resource is the longest by a margin: the next one needs 0.45 to 0.85 of its time, or 0.88 to 0.98 in one case of eight.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from benchmarks.plan.case import FIELDS, MORE, Frozen, PlanCase, shared_out
from tfhet.errors import TfhetError, UsageError
from tfhet.plan import Where as Place
from tfhet.plan.ceiling import Resource
from tfhet.plan.host import PAYLOAD

KINDS = (
    Resource.ACCELERATOR,
    Resource.DATA_CPUS,
    Resource.ALL_CPUS,
    Resource.DNN_CPUS,
    Resource.DATA_NETWORK,
    Resource.DNN_NETWORK,
)
"""Resources that are to bind, taken in turns."""
PLACES: Mapping[Resource, tuple[Place, ...]] = {
    Resource.ACCELERATOR: (Place.TRAINER, Place.DATA, Place.EVERYWHERE),
    Resource.DATA_CPUS: (Place.DATA,),
    Resource.ALL_CPUS: (Place.EVERYWHERE,),
    Resource.DNN_CPUS: (Place.TRAINER, Place.DATA),
    Resource.DATA_NETWORK: (Place.DATA,),
    Resource.DNN_NETWORK: (Place.DATA,),
}
"""Networks are limited where only data hosts prepare: others take over what a network cannot carry."""
NEAR_SHARE = 1 / 8
CLEAR, NEAR = (0.45, 0.85), (0.88, 0.98)
SHORTEST_S, LONGEST_S = 0.09, 0.28
MOST_OF_A_CPU = 0.98 / MORE
"""CPUs that the hosts on one CPU of this machine may have together, so that there is more to give them."""
TRIES = 20_000
_DNN_CPUS, _DATA_CPUS = (0.2, 0.7), (0.12, 0.5)
_STREAMS = 2
"""Batches on their way together, at least, where a network is limited: with one it rests between two."""


def draw(frozen: Frozen, seed: int, number: int) -> PlanCase:
    """The case `number` of a seed: the same from the same model. Raises TfhetError when none is found."""
    kind = KINDS[number % len(KINDS)]
    chance = random.Random(f"{seed}/{number}")
    low, high = NEAR if chance.random() < NEAR_SHARE else CLEAR
    for _ in range(TRIES):
        margin = chance.uniform(low, high)
        case = _bound(_drawn(frozen, chance, number, kind, margin), frozen, chance)
        if case is not None:
            return case
    raise TfhetError(f"no case {number} of the seed {seed} was found in which {kind.value} would bind")


def _drawn(frozen: Frozen, chance: random.Random, number: int, kind: Resource, margin: float) -> PlanCase:
    """With an accelerator that takes no time, and networks without a limit."""
    load = chance.choice(list(frozen.loads))
    place = chance.choice(PLACES[kind])
    data_hosts = 0 if place is Place.TRAINER else chance.randint(1, 4)
    cuts = frozen.loads[load].pipeline.cuts
    smallest = frozen.loads[load].pipeline.smallest_cut
    is_free = place is not Place.TRAINER and chance.random() < 0.4
    index = chance.randrange(len(cuts)) if is_free else smallest
    network = kind in (Resource.DATA_NETWORK, Resource.DNN_NETWORK)
    return PlanCase(
        number,
        kind,
        margin,
        load,
        place,
        index,
        cuts[index].position,
        round(chance.uniform(*_DNN_CPUS), 2),
        round(chance.uniform(*_DATA_CPUS), 2),
        data_hosts,
        _STREAMS if kind is Resource.DATA_NETWORK or (network and data_hosts < _STREAMS) else 1,
        accelerator_ms=1e-3,
    )


def _bound(case: PlanCase, frozen: Frozen, chance: random.Random) -> PlanCase | None:
    """With accelerator and networks such that the wanted resource binds; None where that cannot be."""
    if not fits(case.dnn_cpus, [case.data_cpus] * case.data_hosts):
        return None
    try:
        cpu_s = case.prediction(frozen).ceilings_s
    except UsageError:
        return None
    longest = next(iter(cpu_s))
    longest_s = cpu_s[longest].value
    lower_ms = 1e3 * longest_s * chance.uniform(0.3, case.margin)
    if case.kind is Resource.ACCELERATOR:
        case = replace(case, accelerator_ms=1e3 * longest_s / case.margin)
    elif case.kind in (Resource.DATA_NETWORK, Resource.DNN_NETWORK):
        step_s = longest_s / case.margin
        mbit = case.load.batch_size * frozen.loads[case.load].pipeline.cuts[case.cut].bytes_per_example * 8e-6 / PAYLOAD
        if case.kind is Resource.DATA_NETWORK:
            case = replace(case, data_mbit_per_s=round(mbit / step_s / case.data_hosts, 1))
        else:
            case = replace(case, dnn_mbit_per_s=round(mbit / step_s, 1))
        case = replace(case, accelerator_ms=lower_ms)
    elif longest is case.kind:
        # The next one is the accelerator, or another resource that is between.
        case = replace(case, accelerator_ms=chance.choice([1e3 * longest_s * case.margin, lower_ms]))
    else:
        return None
    return case if _is_wanted(case, frozen) else None


def _is_wanted(case: PlanCase, frozen: Frozen) -> bool:
    found = case.prediction(frozen)
    first, second = (found.ceilings_s[resource].value for resource in (found.binding, found.runner_up))
    low, high = NEAR if case.margin >= NEAR[0] else CLEAR
    return (
        found.binding is case.kind
        and found.runner_up in FIELDS
        and SHORTEST_S <= found.step_s.value <= LONGEST_S
        and low - 0.01 <= second / first <= high + 0.01
    )


def fits(dnn_cpus: float, data_cpus: list[float]) -> bool:
    """Whether the hosts find room on the CPUs, with more to be given."""
    return max(shared_out(dnn_cpus, data_cpus)) <= MOST_OF_A_CPU
