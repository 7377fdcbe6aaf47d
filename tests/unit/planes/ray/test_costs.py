"""planes/ray/costs.py: what Ray takes of hosts, as the record of the planes says it."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from tfhet.cluster import DATA, DNN
from tfhet.errors import UsageError
from tfhet.plan import ClusterShape, CutCost, HostType, Interval, Layout, PipelineCost, Trainer, Where, Workload
from tfhet.plan.measured_run import MeasuredRun
from tfhet.plan.prediction import best_layout, layouts, predict, supply
from tfhet.planes import get
from tfhet.planes.carrier import RAY
from tfhet.planes.ray import costs
from tfhet.planes.ray.settings import RaySettings
from tfhet.record import Record, RunFolder, RunSummary, Timeline
from tfhet.units import GB

G5, C5 = HostType("ml.g5.xlarge", 4, 1, "A10G"), HostType("ml.c5.xlarge", 4)


@pytest.fixture(scope="module")
def planes_record(repository):
    return Record.read(repository / "results" / "planes.json")


def fitted(record: Record, group: str, s_per_gb: float) -> list[Interval]:
    """CPUs all the time, and CPU seconds of a batch, by all chains; the ends by two of them."""
    chains, rows, taken = record.details["chains"], [], []
    for name, chain in chains.items():
        (run,) = record.details["runs"][f"ray.{name}"]
        batch_bytes = chain["batch_size"] * chain["size"] ** 2 * 3
        work_s = record.details["batch_cpu_s"][f"numpy.{name}"][0] if group == "data_group" else 0.0
        rows.append((run["steps"] * run["step_s"], run["steps"]))
        taken.append(run["cpu_s"][group] - run["steps"] * (work_s + s_per_gb * batch_bytes / GB))
    whole = np.linalg.lstsq(np.array(rows), np.array(taken), rcond=None)[0]
    pairs = [
        np.linalg.solve(np.array([rows[one] for one in pair]), np.array([taken[one] for one in pair]))
        for pair in itertools.combinations(range(3), 2)
    ]
    return [Interval(whole[at], min(p[at] for p in pairs), max(p[at] for p in pairs)) for at in range(2)]


@pytest.mark.parametrize(
    ("group", "s_per_gb", "known"),
    [
        ("dnn_group", costs.READER_S_PER_GB, (costs.LEADER_CPUS, costs.READER_BATCH_S)),
        ("data_group", costs.SERVER_S_PER_GB, (costs.HOST_CPUS, costs.SERVER_BATCH_S)),
    ],
)
def test_what_is_assumed_is_what_the_record_of_the_planes_says(planes_record, group, s_per_gb, known):
    for found, assumed in zip(fitted(planes_record, group, s_per_gb.value), known, strict=True):
        for end in ("value", "low", "high"):
            assert getattr(assumed, end) == pytest.approx(getattr(found, end), rel=0.08)


def test_a_gb_takes_a_reader_what_the_largest_batches_took():
    assert RAY.known["77MB"][0] == costs.READER_S_PER_GB


def test_small_batches_are_dear():
    wire = get("ray").costs().wire
    small, large = (wire("uint8", size, "none").reader_s_per_gb.value for size in (100_000, 10_000_000))
    assert small == pytest.approx(0.0041 / 1e-4 + 0.433) and large == pytest.approx(0.0041 / 1e-2 + 0.433)
    for given in (("uint8", 0, "none"), ("uint8", 9, "snappy")):
        with pytest.raises(UsageError):
            wire(*given)


def workload(us: float) -> Workload:
    pipeline = PipelineCost((CutCost("blur", 1, Interval.exact(us), Interval.exact(0.0), 12288, "uint8"),))
    return Workload(pipeline, Trainer({"A10G": Interval.exact(10.0)}, 128), get("ray").costs())


def test_batches_go_through_ray_where_there_are_no_data_hosts_too():
    alone, training = ClusterShape(G5), workload(1000.0)
    assert [layout.where for layout in layouts(training, alone)] == [Where.EVERYWHERE]
    found = predict(training, alone, best_layout(training, alone)[1])
    cpu_s = 128 * (1e-3 + 12288e-9 * (0.433 + 1.97)) + 0.0041 + 0.00136
    assert found.step_s.value == pytest.approx(cpu_s / (4 - 0.39))


def test_beside_data_hosts_a_plan_has_no_dnn_host_prepare_since_ray_offers_their_cpus_by_number_only():
    assert {layout.where for layout in layouts(workload(1000.0), ClusterShape(G5, 1, C5, 1))} == {Where.DATA}


def test_its_processes_take_cpus_of_each_host_and_more_of_the_leaders():
    cluster, training = ClusterShape(G5, 3, C5, 2), workload(1000.0)
    found = supply(training, cluster, Layout(Where.EVERYWHERE))
    assert found.dnn_cpus == pytest.approx(3 * 4 - 0.39 - 2 * 0.18)
    assert found.data_cpus == pytest.approx(2 * (4 - 0.18))


def test_a_run_says_which_hosts_prepared_and_without_data_hosts_ray_did():
    facts = get("ray").host_facts
    cases = [(RaySettings(dnn_host_cpus=cpus), role) for cpus in (-1, 2) for role in (DATA, DNN)]
    servers = [facts(*case)["servers_per_host"] for case in cases]
    assert servers == [1, 0, 1, 1]
    training = workload(1000.0)
    run = MeasuredRun(RunFolder(Path("none")), RunSummary(mode="homogeneous"), Timeline())
    assert run.layout(training.pipeline, training.plane_costs).where is Where.EVERYWHERE
    assert run.layout(training.pipeline).where is Where.TRAINER


def test_without_data_hosts_a_plan_has_dnn_hosts_offer_all_cpus():
    assert get("ray").arguments(0, 1)["dnn_host_cpus"] == -1
