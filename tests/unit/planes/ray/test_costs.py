"""planes/ray/costs.py: what Ray takes of hosts, as the record of the planes says it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfhet.cluster import DATA, DNN
from tfhet.errors import UsageError
from tfhet.plan import ClusterShape, CutCost, HostType, Layout, PipelineCost, Trainer, Where, Workload
from tfhet.plan.measured_run import MeasuredRun
from tfhet.plan.prediction import best_layout, layouts, predict, supply
from tfhet.planes import get
from tfhet.planes.carrier import RAY
from tfhet.planes.ray import costs
from tfhet.planes.ray.settings import RaySettings
from tfhet.record import Interval, Record, RunFolder, RunSummary, Timeline
from tfhet.units import GB

G5, C5 = HostType("ml.g5.xlarge", 4, 1, "A10G"), HostType("ml.c5.xlarge", 4)


@pytest.fixture(scope="module")
def read(repository):
    return lambda name: Record.read(repository / "results" / f"{name}.json")


def fitted(record: Record, group: str, s_per_gb: float | None) -> list[Interval]:
    """CPUs all the time, CPU seconds of a batch, and of a GB where that is not given: by the runs of all chains; the
    ends by the rounds, of one run of each chain."""
    chains = record.details["chains"]
    rounds: list[list[tuple[list[float], float]]] = []
    for at in range(min(len(record.details["runs"][f"ray.{name}"]) for name in chains)):
        rounds.append([])
        for name, chain in chains.items():
            run = record.details["runs"][f"ray.{name}"][at]
            gb = run["steps"] * chain["batch_size"] * chain["size"] ** 2 * 3 / GB
            work_s = record.details["batch_cpu_s"][f"numpy.{name}"][at] if group == "data_group" else 0.0
            known_s = run["steps"] * work_s + (s_per_gb or 0.0) * gb
            row = [run["steps"] * run["step_s"], run["steps"], *([gb] if s_per_gb is None else [])]
            rounds[-1].append((row, run["cpu_s"][group] - known_s))

    def solved(rows: list[tuple[list[float], float]]) -> list[float]:
        return list(np.linalg.lstsq(np.array([row for row, _ in rows]), np.array([y for _, y in rows]), rcond=None)[0])

    whole, by_round = solved([row for each in rounds for row in each]), [solved(each) for each in rounds]
    ends = [[max(0.0, one[at]) for one in (whole, *by_round)] for at in range(len(whole))]  # no CPU is given back
    return [Interval(found[0], min(found), max(found)) for found in ends]


@pytest.mark.parametrize(
    ("group", "s_per_gb", "known"),
    [
        ("dnn_group", costs.READER_S_PER_GB.value, (costs.LEADER_CPUS, costs.READER_BATCH_S)),
        ("data_group", None, (costs.HOST_CPUS, costs.SERVER_BATCH_S, costs.SERVER_S_PER_GB)),
    ],
)
def test_what_is_assumed_is_what_one_record_says_and_holds_what_the_others_do(read, group, s_per_gb, known):
    records = [read(name) for name in ("planes-other-day", "planes", "planes-other-machine", "planes-one-run")]
    assert all(len(runs) > 1 for runs in records[0].details["runs"].values()), "else nothing says how far to trust them"
    for assumed, *found in zip(known, *(fitted(record, group, s_per_gb) for record in records), strict=True):
        assert assumed.value == pytest.approx(found[0].value, rel=0.01)
        assert assumed.low == pytest.approx(min(each.low for each in found), rel=0.01)
        assert assumed.high == pytest.approx(max(each.high for each in found), rel=0.01)


def test_a_gb_takes_a_reader_what_the_largest_batches_took():
    assert RAY.known["77MB"][0] == costs.READER_S_PER_GB


def test_small_batches_are_dear():
    wire = get("ray").costs().wire
    small, large = (wire("uint8", size, "none").reader_s_per_gb.value for size in (100_000, 10_000_000))
    assert small == pytest.approx(0.00279 / 1e-4 + 0.278) and large == pytest.approx(0.00279 / 1e-2 + 0.278)
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
    cpu_s = 128 * (1e-3 + 12288e-9 * (0.278 + 2.31)) + 0.00279 + 0.000173
    assert found.step_s.value == pytest.approx(cpu_s / (4 - 0.282))


def test_beside_data_hosts_a_plan_has_no_dnn_host_prepare_since_ray_offers_their_cpus_by_number_only():
    assert {layout.where for layout in layouts(workload(1000.0), ClusterShape(G5, 1, C5, 1))} == {Where.DATA}


def test_its_processes_take_cpus_of_each_host_and_more_of_the_leaders():
    cluster, training = ClusterShape(G5, 3, C5, 2), workload(1000.0)
    found = supply(training, cluster, Layout(Where.EVERYWHERE))
    assert found.dnn_cpus == pytest.approx(3 * 4 - 0.282 - 2 * 0.0866)
    assert found.data_cpus == pytest.approx(2 * (4 - 0.0866))


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
