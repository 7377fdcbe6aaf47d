"""plan/ceiling.py: each ceiling by hand."""

from __future__ import annotations

import plans
import pytest

from tfhet.errors import UsageError
from tfhet.plan.ceiling import Demand, Resource, Supply, Where, ceilings

NEEDS = Demand(0.1, pinned_cpu_s=2.0, movable_cpu_s=10.0, wire_bytes=1e9, batch_s=0.4, source_bytes=3e8)


def test_without_a_service_dnn_hosts_do_everything_and_nothing_travels():
    found = ceilings(NEEDS, Supply(dnn_cpus=4.0, source_bytes_per_s=1e9), Where.TRAINER)
    assert found == {Resource.ACCELERATOR: 0.1, Resource.DNN_CPUS: 3.0, Resource.SOURCE: pytest.approx(0.3)}


def test_data_hosts_alone_do_what_can_be_moved_and_their_network_carries_all_of_it():
    has = Supply(dnn_cpus=4.0, data_cpus=20.0, dnn_bytes_per_s=1e10, data_bytes_per_s=2e9, batches_in_flight=2.0)
    found = ceilings(NEEDS, has, Where.DATA)
    assert found[Resource.DNN_CPUS] == 0.5
    assert found[Resource.DATA_CPUS] == 0.5
    assert found[Resource.DATA_NETWORK] == 0.5
    assert found[Resource.DNN_NETWORK] == pytest.approx(0.1)
    assert found[Resource.REQUESTS] == 0.2
    assert Resource.ALL_CPUS not in found


def test_with_workers_everywhere_all_cpus_do_all_work_as_in_the_bench_of_scaling():
    has = Supply(dnn_cpus=4.0, data_cpus=20.0)
    found = ceilings(NEEDS, has, Where.EVERYWHERE)
    assert found[Resource.ALL_CPUS] == (2.0 + 10.0) / (4.0 + 20.0)
    assert found[Resource.DNN_CPUS] == 0.5  # what cannot be moved, whatever the data hosts do


def test_a_network_carries_what_the_dnn_hosts_do_not_prepare_themselves():
    """A part f of the step comes from data hosts: their network takes f x 2 s, dnn CPUs (2 + (1 - f) 10) / 4 s. Both
    take as long where f = 2/3: 4/3 s."""
    has = Supply(dnn_cpus=4.0, data_cpus=1000.0, data_bytes_per_s=5e8)
    assert ceilings(NEEDS, has, Where.EVERYWHERE)[Resource.DATA_NETWORK] == pytest.approx(4 / 3)


def test_a_network_that_the_cpus_leave_nothing_for_carries_nothing():
    has = Supply(dnn_cpus=4.0, data_cpus=1000.0, dnn_hosts=2, dnn_bytes_per_s=1e8, data_bytes_per_s=1e12)
    found = ceilings(NEEDS, has, Where.EVERYWHERE)
    # Half of what two dnn hosts prepare for each other travels, though they do all of it: 10 s x 1/2.
    assert found[Resource.DNN_NETWORK] == pytest.approx(5.0)


def test_workers_on_dnn_hosts_alone_need_no_data_hosts():
    found = ceilings(NEEDS, Supply(dnn_cpus=4.0), Where.EVERYWHERE)
    assert found[Resource.ALL_CPUS] == 3.0
    assert Resource.DATA_NETWORK not in found


def test_a_step_without_hosts_that_prepare_is_refused():
    with pytest.raises(UsageError, match="no host prepares"):
        ceilings(NEEDS, Supply(dnn_cpus=4.0), Where.DATA)


def test_relaxing_a_resource_shortens_its_own_ceiling_by_as_much_where_it_binds_alone():
    has = Supply(4.0, 20.0, 2, 1e9, 1e9, 3.0, 1e9)
    for where in (Where.TRAINER, Where.DATA):
        before = ceilings(NEEDS, has, where)
        for resource, seconds in before.items():
            after = ceilings(*plans.relaxed(NEEDS, has, resource, 2.0), where)
            assert after == {**before, resource: pytest.approx(seconds / 2)}
