"""Plans for the data plane ray: its processes use CPUs of every host, and batches always go through it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.cluster import DATA, DNN
from tfhet.plan import ClusterShape, CutCost, HostType, Layout, PipelineCost, Trainer, Where, Workload
from tfhet.plan.measured_run import MeasuredRun
from tfhet.plan.prediction import best_layout, layouts, predict, supply
from tfhet.planes import CostFile, get
from tfhet.planes.ray.settings import RaySettings
from tfhet.record import Interval, RunFolder, RunSummary, Timeline

G5, C5 = HostType("ml.g5.xlarge", 4, 1, "A10G"), HostType("ml.c5.xlarge", 4)


COST = CostFile.shipped().plane("ray")
LEADER, HOST = COST.leader_cpus.value, COST.host_cpus.value


def workload(us: float) -> Workload:
    pipeline = PipelineCost((CutCost("blur", 1, Interval.exact(us), Interval.exact(0.0), 12288, "uint8"),))
    return Workload(pipeline, Trainer({"A10G": Interval.exact(10.0)}, 128), get("ray").costs(CostFile.shipped()))


def test_batches_go_through_ray_without_data_hosts():
    alone, training = ClusterShape(G5), workload(1000.0)
    assert [layout.where for layout in layouts(training, alone)] == [Where.EVERYWHERE]
    found = predict(training, alone, best_layout(training, alone)[1])
    wire = training.plane_costs.wire(128 * 12288)
    cpu_s = 128 * (1e-3 + 12288e-9 * (wire.reader_s_per_gb.value + wire.server_s_per_gb.value))
    assert found.step_s.value == pytest.approx(cpu_s / (4 - LEADER))


def test_only_data_hosts_prepare_if_there_are_any():
    assert {layout.where for layout in layouts(workload(1000.0), ClusterShape(G5, 1, C5, 1))} == {Where.DATA}


def test_processes_of_ray_use_cpus_of_every_host():
    cluster, training = ClusterShape(G5, 3, C5, 2), workload(1000.0)
    found = supply(training, cluster, Layout(Where.EVERYWHERE))
    assert found.dnn_cpus == pytest.approx(3 * 4 - LEADER - 2 * HOST)
    assert found.data_cpus == pytest.approx(2 * (4 - HOST))


def test_run_without_data_hosts_was_prepared_by_ray():
    facts = get("ray").host_facts
    cases = [(RaySettings(dnn_host_cpus=cpus), role) for cpus in (-1, 2) for role in (DATA, DNN)]
    servers = [facts(*case)["servers_per_host"] for case in cases]
    assert servers == [1, 0, 1, 1]
    training = workload(1000.0)
    run = MeasuredRun(RunFolder(Path("none")), RunSummary(mode="homogeneous"), Timeline())
    assert run.layout(training.pipeline, training.plane_costs).where is Where.EVERYWHERE
    assert run.layout(training.pipeline).where is Where.TRAINER
