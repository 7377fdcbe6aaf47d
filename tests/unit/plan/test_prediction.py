"""plan/prediction.py, host.py, workload.py: from a profile to a step."""

from __future__ import annotations

from dataclasses import replace

import plans
import pytest
from aws_cifar_profile import PROFILE

from tfhet import catalogue, planes
from tfhet.errors import DataError, UsageError
from tfhet.plan import ClusterShape, HostType, Layout, PipelineCost, Resource, Where, best_layout, predict
from tfhet.plan.prediction import demand
from tfhet.profile import Cost, Profile
from tfhet.record import Interval, Record

MIXED = ClusterShape(plans.GPU, 1, plans.CPU, 1)


def test_a_step_that_waits_for_cpus_takes_what_it_costs_over_what_there_is():
    found = predict(plans.workload(), ClusterShape(plans.GPU), Layout())
    assert found.step_s.value == pytest.approx(0.1 / 4)
    assert found.binding is Resource.DNN_CPUS
    assert found.runner_up is Resource.ACCELERATOR
    assert found.examples == 1000
    assert found.examples_per_s.value == pytest.approx(40_000)


def test_with_data_hosts_the_wire_is_paid_for_too():
    found = predict(plans.workload(), MIXED, Layout(Where.EVERYWHERE))
    cpu_s = 0.1 + 0.001 * (0.8 + 0.8)  # 1 MB in batches
    assert found.ceilings_s[Resource.ALL_CPUS].value == pytest.approx(cpu_s / (4 + 16))
    assert found.binding is Resource.ACCELERATOR


def test_a_slower_vcpu_counts_as_less_than_one():
    slow = replace(plans.GPU, speed=Interval(0.5, 0.4, 0.6))
    found = predict(plans.workload(), ClusterShape(slow), Layout())
    assert found.step_s.value == pytest.approx(0.1 / 2)
    assert (found.step_s.low, found.step_s.high) == (pytest.approx(0.1 / 2.4), pytest.approx(0.1 / 1.6))


def test_what_a_launcher_takes_is_not_there_for_the_job():
    small, busy = replace(plans.GPU, vcpus=0.5), replace(plans.workload(), launcher_cpus=Interval(0.1, 0.0, 0.2))
    found = predict(busy, ClusterShape(small), Layout()).ceilings_s[Resource.DNN_CPUS]
    assert (found.value, found.low, found.high) == (*(pytest.approx(0.1 / cpus) for cpus in (0.4, 0.5, 0.3)),)
    with pytest.raises(UsageError, match="the launcher alone takes"):
        predict(busy, ClusterShape(replace(plans.GPU, vcpus=0.05)), Layout())


def test_every_rank_has_a_batch_and_every_host_its_network():
    needs = demand(plans.workload(), ClusterShape(plans.GPU, 3, plans.CPU, 2), Layout(Where.DATA))
    assert needs.wire_bytes == pytest.approx(3e6)
    assert needs.accelerator_s == pytest.approx(0.01)
    assert needs.batch_s == pytest.approx(0.0005 + 0.001 / 0.6 + 1e6 / (0.96 * 10e9 / 8))


def test_a_batch_takes_longer_where_a_host_has_less_than_one_cpu():
    small = replace(plans.CPU, vcpus=0.2)
    one, fifth = (
        demand(plans.workload(), ClusterShape(plans.GPU, 1, data, 1), Layout(Where.DATA)) for data in (plans.CPU, small)
    )
    assert fifth.batch_s - one.batch_s == pytest.approx(4 * 0.001 / 0.6)


def test_the_best_cut_sends_few_bytes_where_the_network_binds_and_none_of_the_work_where_it_does_not():
    wide = plans.workload(remote_us=50.0, local_us=10.0, size=5000.0)
    thin = replace(plans.CPU, network_gbit_per_s=1.0)
    _, layout = best_layout(wide, ClusterShape(plans.BIGGER, 1, thin, 4))
    assert wide.pipeline.cuts[layout.cut].last_part == "stages"
    heavy = plans.workload(step_ms=1.0, remote_us=50.0, local_us=50.0, size=10.0)
    _, layout = best_layout(heavy, ClusterShape(replace(plans.GPU, vcpus=1), 1, plans.CPU, 8))
    assert heavy.pipeline.cuts[layout.cut].last_part == "rescale"


def test_servers_are_added_while_what_is_in_flight_binds():
    far = replace(plans.workload(), plane_costs=replace(plans.COSTS, request_s=Interval.exact(0.05)))
    step, layout = best_layout(far, MIXED)
    assert layout.servers_per_host > 1
    assert step < predict(far, MIXED, replace(layout, servers_per_host=1)).step_s.value


def test_an_accelerator_whose_step_nobody_stated_is_refused():
    with pytest.raises(UsageError, match="unknown accelerator 'H'; known: G"):
        predict(plans.workload(), ClusterShape(replace(plans.GPU, gpu_kind="H")), Layout())


def test_a_plane_without_servers_leaves_all_stages_in_the_training_processes():
    _, layout = best_layout(replace(plans.workload(), plane_costs=planes.get("local").costs()), MIXED)
    assert layout == Layout()


def test_a_cut_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="1 places to be cut"):
        predict(plans.workload(), MIXED, Layout(Where.DATA, cut=1))


def test_a_cluster_is_written_as_it_is_read():
    types = {kind.name: kind for kind in (plans.GPU, plans.CPU)}
    made = ClusterShape.parse("2*ml.gpu.small + 3*ml.cpu.large", types.__getitem__)
    assert (made.dnn, made.dnn_hosts, made.data, made.data_hosts) == (plans.GPU, 2, plans.CPU, 3)
    assert str(made) == "2*ml.gpu.small+3*ml.cpu.large"
    assert ClusterShape.parse(str(made), types.__getitem__) == made
    assert ClusterShape.parse("ml.gpu.small", types.__getitem__) == ClusterShape(plans.GPU)
    for wrong in ("", "a+b+c", "x*ml.gpu.small", "0*ml.gpu.small"):
        with pytest.raises(UsageError, match="cluster|hosts"):
            ClusterShape.parse(wrong, lambda name: plans.GPU)


def test_types_come_from_the_catalogue():
    found = HostType.of(catalogue.default().instance("ml.p4d.24xlarge"))
    assert (found.vcpus, found.ranks, found.gpu_kind, found.family) == (96, 8, "A100", "ml.p4d")
    assert found.bytes_per_s == pytest.approx(0.96 * 400e9 / 8)
    assert replace(found, network_gbit_per_s=None).bytes_per_s == float("inf")


def test_the_recorded_profile_becomes_a_cost_at_every_cut():
    found = PipelineCost.of(PROFILE)
    assert [cut.position for cut in found.cuts] == [0, 1, 2, 5, 6]
    whole = found.whole_us
    assert all(cut.remote_us.value + cut.local_us.value == pytest.approx(whole.value, rel=0.05) for cut in found.cuts)
    assert found.cuts[-1].local_us == Interval.exact(0.0)
    assert [cut.bytes_per_example for cut in found.cuts][-2:] == [3096.0, 12312.0]


def test_a_plain_data_set_is_cut_at_its_end():
    costs = (Cost("source", (1.0, 1.0), kind="TensorSlice"), Cost("map", (5.0, 6.0), kind="Map", dtype="uint8"))
    (cut,) = PipelineCost.of(Profile("dataset", costs)).cuts
    assert (cut.last_part, cut.dtype, cut.remote_us.low, cut.remote_us.high) == ("map", "uint8", 5.0, 6.0)


def test_a_record_of_something_else_is_no_profile():
    with pytest.raises(DataError, match="is not of a profile"):
        Profile.of(Record("stages.aws-cifar"))
