"""The step time of a workload on a cluster, with an interval and the resource that binds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tfhet.errors import UsageError
from tfhet.plan.ceiling import Demand, Resource, Supply, Where, ceilings, longest
from tfhet.plan.host import ClusterShape
from tfhet.plan.interval import Interval, View
from tfhet.plan.workload import SPLIT_S, CutCost, Workload

MOST_WORKERS = 8
"""On one host: beyond, none was ever seen to help."""


@dataclass(frozen=True)
class Layout:
    """The decisions that cost no money."""

    where: Where = Where.TRAINER
    cut: int = -1
    """Index of the cut of the pipeline; the dtype that travels follows from it."""
    compression: str = "none"
    workers_per_host: int = 1


@dataclass(frozen=True)
class Prediction:
    """What to expect of a step."""

    cluster: ClusterShape
    layout: Layout
    cut: CutCost
    step_s: Interval
    ceilings_s: Mapping[Resource, Interval]
    """By resource, the longest first."""
    examples: int
    """Of all ranks."""

    @property
    def binding(self) -> Resource:
        """Of which more would shorten the step."""
        return next(iter(self.ceilings_s))

    @property
    def runner_up(self) -> Resource:
        """What binds when the binding one does not."""
        return list(self.ceilings_s)[1]

    @property
    def examples_per_s(self) -> Interval:
        step = self.step_s
        return Interval(self.examples / step.value, self.examples / step.high, self.examples / step.low)


def demand(workload: Workload, cluster: ClusterShape, layout: Layout, view: View = View.EXPECTED) -> Demand:
    """Of one step of all ranks of this cluster."""
    pipeline, trainer, wire = workload.pipeline, workload.trainer, workload.wire
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
    stream = wire.stream(cut.dtype, max(1, round(batch_bytes)), layout.compression)
    gb, ratio = ranks * batch_bytes / 1e9, stream.wire_ratio.demand(view)
    moved = gb * workload.overhead.demand(view)
    ends = (cluster.dnn, cluster.data or cluster.dnn)
    gb_per_s = stream.gb_per_s.supply(view) * min(end.thread_speed(view) for end in ends)
    carried_s = ratio * batch_bytes / min(end.bytes_per_s for end in ends)
    return Demand(
        accelerator_s,
        pinned_cpu_s=processes_s + us * cut.local_us.demand(view) + moved * stream.client_s_per_gb.demand(view),
        movable_cpu_s=us * cut.remote_us.demand(view) + moved * stream.worker_s_per_gb.demand(view),
        wire_bytes=1e9 * gb * ratio,
        batch_s=wire.request_s.demand(view) + batch_bytes / 1e9 / gb_per_s + carried_s,
        source_bytes=source_bytes,
        dispatcher_s=examples * pipeline.splits_per_example * SPLIT_S.demand(view),
    )


def supply(workload: Workload, cluster: ClusterShape, layout: Layout, view: View = View.EXPECTED) -> Supply:
    """Of this cluster."""
    dnn, data = cluster.dnn, cluster.data
    workers_on = cluster.data_hosts + (cluster.dnn_hosts if layout.where is Where.EVERYWHERE else 0)
    readers = cluster.dnn_hosts if layout.where is Where.TRAINER else max(1, workers_on)
    taken = workload.launcher_cpus.demand(view)
    return Supply(
        dnn_cpus=cluster.dnn_hosts * dnn.left_by(taken, view),
        data_cpus=cluster.data_hosts * data.left_by(taken, view) if data else 0.0,
        dnn_hosts=cluster.dnn_hosts,
        dnn_bytes_per_s=cluster.dnn_hosts * dnn.bytes_per_s,
        data_bytes_per_s=cluster.data_hosts * data.bytes_per_s if data else math.inf,
        batches_in_flight=max(1, layout.workers_per_host * workers_on),
        source_bytes_per_s=readers * (workload.source_bytes_per_s or math.inf),
    )


def step_s(workload: Workload, cluster: ClusterShape, layout: Layout) -> float:
    """The expected step alone: what a search compares."""
    found = ceilings(demand(workload, cluster, layout), supply(workload, cluster, layout), layout.where)
    return max(found.values())


def predict(workload: Workload, cluster: ClusterShape, layout: Layout) -> Prediction:
    """The expected step, and the step with every input at its best and at its worst. Raises UsageError for a layout
    that the cluster or the pipeline does not have."""
    if not -len(workload.pipeline.cuts) <= layout.cut < len(workload.pipeline.cuts):
        raise UsageError(f"cut {layout.cut}: the pipeline has {len(workload.pipeline.cuts)} places to be cut")
    seen = {
        view: ceilings(demand(workload, cluster, layout, view), supply(workload, cluster, layout, view), layout.where)
        for view in View
    }
    expected, best, worst = (seen[view] for view in (View.EXPECTED, View.BEST, View.WORST))
    order = longest(expected)
    # Where noise alone parts the three, rounding may swap them.
    spread = {
        one: Interval(expected[one], min(best[one], expected[one]), max(worst[one], expected[one])) for one in order
    }
    step = Interval(*(max(getattr(each, end) for each in spread.values()) for end in ("value", "low", "high")))
    cut = workload.pipeline.cuts[layout.cut]
    return Prediction(cluster, layout, cut, step, spread, cluster.ranks * workload.trainer.batch_size)


def layouts(workload: Workload, cluster: ClusterShape) -> Iterator[Layout]:
    """All that are worth a look: without data hosts one, with them every cut, compression and place."""
    if not cluster.data_hosts:
        yield Layout()
        return
    for where in (Where.DATA, Where.EVERYWHERE):
        for cut in range(len(workload.pipeline.cuts)):
            for compression in workload.wire.compressions:
                yield Layout(where, cut, compression)


def best_layout(workload: Workload, cluster: ClusterShape) -> tuple[float, Layout]:
    """The layout with the shortest step, and that step in seconds; of equal ones the first with the fewest bytes."""

    def judged(layout: Layout) -> tuple[float, float, float]:
        return (
            step_s(workload, cluster, layout),
            workload.pipeline.cuts[layout.cut].bytes_per_example,
            -layout.cut,
        )

    best = min(layouts(workload, cluster), key=judged)
    step = step_s(workload, cluster, best)
    if cluster.data_hosts:
        best, step = _with_workers(workload, cluster, best, step)
    return step, best


def _with_workers(workload: Workload, cluster: ClusterShape, layout: Layout, step: float) -> tuple[Layout, float]:
    """More workers on a host as long as what is in flight is the limit."""
    while layout.workers_per_host < MOST_WORKERS:
        more = replace(layout, workers_per_host=2 * layout.workers_per_host)
        shorter = step_s(workload, cluster, more)
        if not shorter < step:
            break
        layout, step = more, shorter
    return layout, step
