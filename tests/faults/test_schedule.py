from __future__ import annotations

import pytest

from faults.job import CLUSTERS, LEASE_S, cluster_named
from faults.schedule import DISK, MOMENTS, SERVERS, Aim, schedule
from tfhet.simulate import Fault
from tfhet.simulate.fault import CUTS, KINDS, NETWORK

AIMS = [
    Aim.of(cluster_named(name), plane, has_networks=has_networks)
    for name in CLUSTERS
    for plane in ("tf_service", "feed", "ray")
    for has_networks in (False, True)
]
SERVICE = Aim.of(cluster_named("two-and-two"), "tf_service")
DRAWN = [fault for seed in range(400) for fault in schedule(seed, SERVICE, 8.0)]


def test_a_seed_draws_always_the_same():
    assert schedule(7, SERVICE, 8.0) == schedule(7, SERVICE, 8.0)
    assert len({schedule(seed, SERVICE, 8.0) for seed in range(50)}) == 50


@pytest.mark.parametrize("aim", AIMS, ids=str)
def test_schedules_fit_their_job(aim: Aim):
    drawn = [fault for seed in range(300) for fault in schedule(seed, aim, 8.0)]
    for fault in drawn:
        assert Fault.parse(str(fault)) == fault
        assert fault.host in ("", *aim.hosts) or (aim.has_networks and fault.host == "data_group")
        assert fault.rank is None or fault.rank < aim.ranks
        assert fault.after_s <= 8.0 or fault.kind == "late-join"
        if fault.kind in DISK:  # the job must be able to write its result
            assert fault.for_s is not None and not aim.has_networks
    assert {(fault.kind, fault.process) for fault in drawn} == {
        (kind, process.replace("group", "")) for kind, process in aim.weights
    }
    own = {"tf_service": {"worker", "dispatcher"}}.get(aim.plane, {aim.plane})
    assert {fault.process for fault in drawn} & {*SERVERS} == own


def test_every_kind_of_fault_is_drawn():
    assert {fault.kind for aim in AIMS for seed in range(300) for fault in schedule(seed, aim, 8.0)} == {*KINDS}
    assert {fault.kind for fault in DRAWN} == {*KINDS} - {*NETWORK}


def test_faults_are_repeated_lasting_and_late():
    assert any(fault.every_s for fault in DRAWN)
    assert {fault.since for fault in DRAWN} == {*MOMENTS}
    for kind in ("hang", *CUTS, "slow-disk", "stall", "clock"):
        assert {fault.for_s is None for fault in DRAWN if fault.kind == kind} == {True, False}
    assert {fault.after_s > 20.0 for fault in DRAWN if fault.kind == "late-join"} == {True, False}


def test_silences_are_about_as_long_as_the_lease():
    silent = [fault.for_s / LEASE_S for fault in DRAWN if fault.kind in ("hang", *CUTS) and fault.for_s]
    assert all(0.2 < share <= 3.0 for share in silent)
    assert all(sum(least < share <= least + 0.5 for share in silent) > 3 for least in (0.2, 0.75, 1.25, 2.5))
