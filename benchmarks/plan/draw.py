"""How the cases of `benchmarks.plan` are drawn: from a seed and the costs of the loads.

The resources that should bind take turns. For each, load, cut, hosts, CPUs and workers are drawn until the predicted
CPU time of a step is within bounds. Then the accelerator's step and the networks' limits are chosen such that the
wanted resource needs the longest time. The next one needs 45 to 85 % of that time, or 88 to 98 % in one case of eight.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from benchmarks.plan.case import LOADS, LoadCosts, PlanCase, PlanLoad
from tfhet.errors import TfhetError, UsageError
from tfhet.plan import Resource, Where as Place
from tfhet.plan.host import PAYLOAD

PLACES: Mapping[Resource, tuple[Place, ...]] = {
    Resource.ACCELERATOR: (Place.TRAINER, Place.DATA, Place.EVERYWHERE),
    Resource.DATA_CPUS: (Place.DATA,),
    Resource.ALL_CPUS: (Place.EVERYWHERE,),
    Resource.DNN_CPUS: (Place.TRAINER, Place.DATA),
    Resource.DATA_NETWORK: (Place.DATA,),
    Resource.DNN_NETWORK: (Place.DATA,),
}
"""Resources that should bind, and where batches are prepared then. If other hosts prepared batches too, they would
replace what a limited network cannot carry."""
KINDS = tuple(PLACES)
NETWORKS = (Resource.DATA_NETWORK, Resource.DNN_NETWORK)
NEAR_SHARE = 1 / 8
CLEAR, NEAR = (0.45, 0.85), (0.88, 0.98)
SHORTEST_S, LONGEST_S = 0.09, 0.28
MOST_OF_A_CPU = 0.8
"""Share of one CPU that the hosts on it may have together."""
TRIES = 20_000
_DNN_CPUS, _DATA_CPUS = (0.2, 0.7), (0.12, 0.5)
_STREAMS = 2
"""Least number of batches in flight if a network is limited: with one, the network rests between two."""
Costs = Mapping[PlanLoad, LoadCosts]


def draw(costs: Costs, seed: int, number: int) -> PlanCase:
    """Returns the case `number` of a seed: the same for the same costs. Raises TfhetError if none is found."""
    kind = KINDS[number % len(KINDS)]
    chance = random.Random(f"{seed}/{number}")
    margins = NEAR if chance.random() < NEAR_SHARE else CLEAR
    for _ in range(TRIES):
        drawn = _drawn(costs, chance, number, kind, chance.uniform(*margins))
        case = _bound(drawn, costs[drawn.load], chance)
        if case is not None:
            return case
    raise TfhetError(f"no case {number} of the seed {seed} was found in which {kind.value} would bind")


def _drawn(costs: Costs, chance: random.Random, number: int, kind: Resource, margin: float) -> PlanCase:
    """A case with an accelerator that takes no time, and networks without a limit."""
    load, place = chance.choice(LOADS), chance.choice(PLACES[kind])
    data_hosts = 0 if place is Place.TRAINER else chance.randint(1, 4)
    pipeline = costs[load].pipeline
    is_free = place is not Place.TRAINER and chance.random() < 0.4
    index = chance.randrange(len(pipeline.cuts)) if is_free else pipeline.smallest_cut
    has_two = kind is Resource.DATA_NETWORK or (kind is Resource.DNN_NETWORK and data_hosts < _STREAMS)
    dnn_cpus, data_cpus = round(chance.uniform(*_DNN_CPUS), 2), round(chance.uniform(*_DATA_CPUS), 2)
    position, workers = pipeline.cuts[index].position, _STREAMS if has_two else 1
    return PlanCase(number, kind, margin, load, place, position, dnn_cpus, data_cpus, data_hosts, workers, 1e-3)


def _bound(case: PlanCase, costs: LoadCosts, chance: random.Random) -> PlanCase | None:
    """The case with an accelerator and networks such that the wanted resource binds; None if that is impossible."""
    if case.busiest_cpus > MOST_OF_A_CPU:
        return None
    try:
        ceilings_s = case.prediction(costs).ceilings_s
    except UsageError:  # a host too small for its own processes
        return None
    longest, interval = next(iter(ceilings_s.items()))
    longest_s = interval.value
    lower_ms = 1e3 * longest_s * chance.uniform(0.3, case.margin)
    if case.kind is Resource.ACCELERATOR:
        case = replace(case, accelerator_ms=1e3 * longest_s / case.margin)
    elif case.kind in NETWORKS:
        (cut,) = (cut for cut in costs.pipeline.cuts if cut.position == case.position)
        mbit = case.load.batch_size * cut.bytes_per_example * 8e-6 / PAYLOAD / (longest_s / case.margin)
        if case.kind is Resource.DATA_NETWORK:
            case = replace(case, data_mbit_per_s=round(mbit / case.data_hosts, 1), accelerator_ms=lower_ms)
        else:
            case = replace(case, dnn_mbit_per_s=round(mbit, 1), accelerator_ms=lower_ms)
    elif longest is case.kind:
        # The next one is the accelerator, or another resource between the two.
        case = replace(case, accelerator_ms=chance.choice([1e3 * longest_s * case.margin, lower_ms]))
    else:
        return None
    return case if _is_wanted(case, costs) else None


def _is_wanted(case: PlanCase, costs: LoadCosts) -> bool:
    found = case.prediction(costs)
    first, second = (found.ceilings_s[resource].value for resource in (found.binding, found.runner_up))
    low, high = NEAR if case.margin >= NEAR[0] else CLEAR
    return (
        found.binding is case.kind
        and found.runner_up in KINDS
        and SHORTEST_S <= found.step_s.value <= LONGEST_S
        and low - 0.01 <= second / first <= high + 0.01
    )
