"""Workloads and clusters for the tests of plans: fixed ones, and drawn ones."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, settings, strategies as st

from tfhet.plan import ClusterShape, CutCost, HostType, Layout, PipelineCost, Resource, Trainer, Where, Workload
from tfhet.plan.ceiling import Demand, Supply
from tfhet.planes import PlaneCosts, WireCost
from tfhet.record import Interval

RELAXED = {
    Resource.DNN_CPUS: ("dnn_cpus",),
    Resource.DATA_CPUS: ("data_cpus",),
    Resource.ALL_CPUS: ("dnn_cpus", "data_cpus"),
    Resource.DATA_NETWORK: ("data_bytes_per_s",),
    Resource.DNN_NETWORK: ("dnn_bytes_per_s",),
    Resource.REQUESTS: ("batches_in_flight",),
    Resource.SOURCE: ("source_bytes_per_s",),
}
"""Fields of a supply that give more of a resource."""

GPU = HostType("ml.gpu.small", 4, 1, "G", 10)
BIGGER = HostType("ml.gpu.large", 16, 1, "G", 10)
CPU = HostType("ml.cpu.large", 16, network_gbit_per_s=10)
USD = {"ml.gpu.small": 4.0, "ml.gpu.large": 9.0, "ml.cpu.large": 1.0}
WIRE = WireCost(Interval.exact(0.8), Interval.exact(0.8), Interval.exact(0.6))
COSTS = PlaneCosts(
    lambda batch_bytes: WIRE, "stated", request_s=Interval(0.0005, 0.0001, 0.001), most_servers_per_host=8
)


def law(examples: int) -> settings:
    """Settings of Hypothesis: this number of draws, however slow the machine."""
    return settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )


def relaxed(demand: Demand, supply: Supply, resource: Resource, factor: float) -> tuple[Demand, Supply]:
    """A step with `factor` times as much of one resource. A faster accelerator needs less time."""
    if resource is Resource.ACCELERATOR:
        return replace(demand, accelerator_s=demand.accelerator_s / factor), supply
    return demand, replace(supply, **{name: factor * getattr(supply, name) for name in RELAXED[resource]})


def workload(
    step_ms: float = 10.0, remote_us: float = 100.0, local_us: float = 0.0, size: float = 1000.0, batch: int = 1000
) -> Workload:
    """100 us of CPU and 1 kB an example, in batches of 1,000: 100 CPU ms a step, against 10 of the accelerator."""
    whole_us = remote_us + local_us
    cuts = [CutCost("stages", 1, Interval.exact(remote_us), Interval.exact(local_us), size, "uint8")]
    if local_us:
        cuts.append(CutCost("rescale", 2, Interval.exact(whole_us), Interval.exact(0.0), 4 * size))
    return Workload(PipelineCost(tuple(cuts)), Trainer({"G": Interval.exact(step_ms)}, batch), COSTS)


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False)


@st.composite
def intervals(draw: st.DrawFn, low: float, high: float) -> Interval:
    value = draw(numbers(low, high))
    return Interval(value, value * draw(numbers(0.5, 1.0)), value * draw(numbers(1.0, 2.0)))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    whole = draw(intervals(0.1, 5000.0))
    part = draw(numbers(0.0, 1.0))
    size = draw(numbers(1.0, 1e6))
    cuts = (
        CutCost("stages", 1, whole.times(part), whole.times(1 - part), size, "uint8"),
        CutCost("rescale", 2, whole, Interval.exact(0.0), size * draw(numbers(1.0, 4.0))),
    )
    wire = WireCost(draw(intervals(0.1, 10.0)), draw(intervals(0.1, 10.0)), draw(intervals(0.05, 10.0)))
    pipeline = PipelineCost(cuts, draw(numbers(0.0, 1e6)))
    return Workload(
        pipeline,
        Trainer({"G": draw(intervals(0.1, 1000.0))}, draw(st.integers(1, 4096)), draw(intervals(0.0, 10.0))),
        replace(COSTS, wire=lambda batch_bytes: wire),
        overhead=draw(st.sampled_from([Interval.exact(1.0), Interval(1.02, 1.0, 1.05)])),
        source_bytes_per_s=draw(st.none() | numbers(1e6, 1e9)),
    )


@st.composite
def types(draw: st.DrawFn, name: str, gpus: int) -> HostType:
    network = draw(st.none() | numbers(0.5, 100.0))
    kind = "G" if gpus else None
    return HostType(name, draw(st.integers(1, 192)), gpus, kind, network, draw(intervals(0.5, 2.0)))


@st.composite
def mixed_clusters(draw: st.DrawFn) -> ClusterShape:
    """With data hosts."""
    dnn = draw(types("ml.gpu.drawn", draw(st.sampled_from([1, 4, 8]))))
    return ClusterShape(dnn, draw(st.integers(1, 4)), draw(types("ml.cpu.drawn", 0)), draw(st.integers(1, 8)))


SERVED = st.builds(
    Layout, st.sampled_from([Where.DATA, Where.EVERYWHERE]), st.integers(0, 1), st.sampled_from([1, 2, 4])
)
LAYOUTS = SERVED | st.just(Layout())
