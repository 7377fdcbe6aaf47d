"""The step time of a workload on a cluster, with an interval and the resource that binds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

from tfhet.errors import UsageError
from tfhet.plan.ceiling import Demand, Layout, Resource, Supply, Where, ceilings
from tfhet.plan.host import ClusterShape
from tfhet.plan.workload import CutCost, Workload
from tfhet.record import Interval, View


@dataclass(frozen=True)
class Prediction:
    cluster: ClusterShape
    layout: Layout
    cut: CutCost
    step_s: Interval
    ceilings_s: Mapping[Resource, Interval]
    """Seconds by resource, the longest first."""
    examples: int
    """Number of examples in a step of all ranks."""

    @property
    def binding(self) -> Resource:
        """The binding resource: increasing it shortens the step."""
        return next(iter(self.ceilings_s))

    @property
    def runner_up(self) -> Resource:
        """The resource that binds once there is enough of the binding one."""
        return list(self.ceilings_s)[1]

    @property
    def examples_per_s(self) -> Interval:
        return self.step_s.inverse().times(self.examples)


def demand(workload: Workload, cluster: ClusterShape, layout: Layout, view: View = View.EXPECTED) -> Demand:
    pipeline, trainer, costs = workload.pipeline, workload.trainer, workload.plane_costs
    ranks, cut = cluster.ranks, pipeline.cuts[layout.cut]
    examples = ranks * trainer.batch_size
    accelerator_s = trainer.step_ms(cluster.dnn.gpu_kind).demand(view) * 1e-3
    processes_s = ranks * trainer.cpu_ms.demand(view) * 1e-3
    us = examples * workload.overhead.demand(view) * 1e-6
    source_bytes = examples * pipeline.source_bytes
    if layout.where is Where.TRAINER:
        whole_s = us * pipeline.whole_us.demand(view)
        return Demand(accelerator_s, processes_s + whole_s, source_bytes=source_bytes)
    batch_bytes = trainer.batch_size * cut.bytes_per_example
    wire = costs.wire(max(1, round(batch_bytes)))
    gb = ranks * batch_bytes / 1e9
    moved = gb * workload.overhead.demand(view)
    ends = (cluster.dnn, cluster.data or cluster.dnn)
    gb_per_s = wire.gb_per_s.supply(view) * min(end.thread_speed(view) for end in ends)
    carried_s = batch_bytes / min(end.bytes_per_s for end in ends)
    return Demand(
        accelerator_s,
        pinned_cpu_s=processes_s + us * cut.local_us.demand(view) + moved * wire.reader_s_per_gb.demand(view),
        movable_cpu_s=us * cut.remote_us.demand(view) + moved * wire.server_s_per_gb.demand(view),
        wire_bytes=1e9 * gb,
        batch_s=costs.request_s.demand(view) + batch_bytes / 1e9 / gb_per_s + carried_s,
        source_bytes=source_bytes,
    )


def supply(workload: Workload, cluster: ClusterShape, layout: Layout, view: View = View.EXPECTED) -> Supply:
    dnn, data = cluster.dnn, cluster.data
    serving = cluster.data_hosts + (cluster.dnn_hosts if layout.where is Where.EVERYWHERE else 0)
    preparing = cluster.dnn_hosts if layout.where is Where.TRAINER else max(1, serving)
    launcher, leader, other = workload.launcher_cpus.demand(view), 0.0, 0.0
    if layout.where is not Where.TRAINER:
        leader, other = (
            each.demand(view) for each in (workload.plane_costs.leader_cpus, workload.plane_costs.host_cpus)
        )
    further = (cluster.dnn_hosts - 1) * dnn.left_by(launcher + other, view) if cluster.dnn_hosts > 1 else 0.0
    return Supply(
        dnn_cpus=dnn.left_by(launcher + leader, view) + further,
        data_cpus=cluster.data_hosts * data.left_by(launcher + other, view) if data else 0.0,
        dnn_hosts=cluster.dnn_hosts,
        dnn_bytes_per_s=cluster.dnn_hosts * dnn.bytes_per_s,
        data_bytes_per_s=cluster.data_hosts * data.bytes_per_s if data else math.inf,
        batches_in_flight=max(1, layout.servers_per_host * serving),
        source_bytes_per_s=preparing * (workload.source_bytes_per_s or math.inf),
    )


def step_s(workload: Workload, cluster: ClusterShape, layout: Layout) -> float:
    """Returns the seconds of the expected step, without its interval. A search compares these."""
    found = ceilings(demand(workload, cluster, layout), supply(workload, cluster, layout), layout.where)
    return max(found.values())


def predict(workload: Workload, cluster: ClusterShape, layout: Layout) -> Prediction:
    """Returns the expected step, and the step with every input at its best and at its worst. Raises UsageError for a
    layout that the cluster or the pipeline does not have."""
    if not -len(workload.pipeline.cuts) <= layout.cut < len(workload.pipeline.cuts):
        raise UsageError(f"cut {layout.cut}: the pipeline has {len(workload.pipeline.cuts)} places to be cut")
    seen = {
        view: ceilings(demand(workload, cluster, layout, view), supply(workload, cluster, layout, view), layout.where)
        for view in View
    }
    expected, best, worst = (seen[view] for view in (View.EXPECTED, View.BEST, View.WORST))
    spread = {
        # Where the three are equal but for rounding, their order may be another.
        one: Interval(seconds, min(best[one], seconds), max(worst[one], seconds))
        for one, seconds in sorted(expected.items(), key=lambda each: -each[1])
    }
    step = Interval(*(max(getattr(each, end) for each in spread.values()) for end in ("value", "low", "high")))
    examples = cluster.ranks * workload.trainer.batch_size
    return Prediction(cluster, layout, workload.pipeline.cuts[layout.cut], step, spread, examples)


def layouts(workload: Workload, cluster: ClusterShape) -> list[Layout]:
    """Returns one layout if batches are not served, else one for every place and cut."""
    costs, only = workload.plane_costs, workload.only_cut
    cuts = range(len(workload.pipeline.cuts)) if only is None else [only]
    if not (cluster.data_hosts or costs.is_needed) or not costs.most_servers_per_host:
        return [Layout()]
    both = (Where.DATA, Where.EVERYWHERE) if costs.uses_all_hosts else (Where.DATA,)
    places = both if cluster.data_hosts else (Where.EVERYWHERE,)
    return [Layout(*each) for each in product(places, cuts)]


def best_layout(workload: Workload, cluster: ClusterShape) -> tuple[float, Layout]:
    """Returns the shortest step in seconds, and its layout; of equal ones the first of those with the fewest bytes. A
    layout with enough memory is better than any other."""

    def fits(layout: Layout) -> bool:
        return workload.memory.fits(cluster, layout)

    def rank(layout: Layout) -> tuple[float, float, float]:
        return step_s(workload, cluster, layout), workload.pipeline.cuts[layout.cut].bytes_per_example, -layout.cut

    every = layouts(workload, cluster)
    best = min([each for each in every if fits(each)] or every, key=rank)
    step = step_s(workload, cluster, best)
    while best.where is not Where.TRAINER and 2 * best.servers_per_host <= workload.plane_costs.most_servers_per_host:
        more = replace(best, servers_per_host=2 * best.servers_per_host)
        if not (shorter := step_s(workload, cluster, more)) < step or not fits(more):
            break
        best, step = more, shorter
    return step, best
