from __future__ import annotations

import pytest

from benchmarks.chaos.schedule import DISK, MOMENTS, WEIGHTS, Aim, schedule
from tfhet.launch.settings import LaunchSettings
from tfhet.simulate import Fault, load

SETTINGS = LaunchSettings(lease_s=4.0, ready_timeout_s=20.0)
DEMO = Aim.of(load("demo"), SETTINGS)
TWO = Aim.of(load("two-data-two-dnn"), SETTINGS)
ALONE = Aim.of(load("homogeneous"), SETTINGS)
NETWORKS = Aim.of(load("two-data-two-dnn"), SETTINGS, networks=True)


def test_the_aim_is_what_the_cluster_has():
    assert (DEMO.hosts, DEMO.serving, DEMO.ranks) == (("data-1", "dnn-1"), ("data-1",), 2)
    assert (TWO.data_hosts, TWO.dnn_hosts, TWO.ranks) == (2, 2, 4)
    assert (ALONE.hosts, ALONE.serving, ALONE.ranks) == (("dnn-1",), (), 2)
    serving_too, _ = LaunchSettings.parse(["--dnn_host_workers", "1"])
    assert Aim.of(load("demo"), serving_too).serving == ("data-1", "dnn-1")
    other = Aim.of(load("demo"), LaunchSettings(dnn_group="data_group", data_group="dnn_group"))
    assert (other.data_hosts, other.dnn_hosts, other.ranks) == (1, 1, 1)


def test_the_same_seed_draws_the_same_faults_and_another_one_others():
    assert schedule(7, TWO, 8.0) == schedule(7, TWO, 8.0)
    assert len({schedule(seed, TWO, 8.0) for seed in range(50)}) == 50


@pytest.mark.parametrize("aim", [DEMO, TWO, ALONE, NETWORKS])
def test_what_is_drawn_can_be_written_down_and_is_within_the_job(aim: Aim):
    for seed in range(200):
        drawn = schedule(seed, aim, 8.0)
        assert 1 <= len(drawn) <= 3
        for fault in drawn:
            assert Fault.parse(str(fault)) == fault
            assert fault.host in ("", *aim.hosts, aim.data_group)
            assert fault.rank is None or fault.rank < aim.ranks
            assert fault.after_s <= 8.0 or fault.kind == "late-join"
            assert fault.kind != "second-job" or fault.host in ("dnn-1", *aim.serving)


def test_every_kind_is_drawn_also_repeated_for_a_while_and_too_late():
    drawn = [fault for seed in range(400) for fault in schedule(seed, TWO, 8.0)]
    assert {(fault.kind, fault.process) for fault in drawn} == set(WEIGHTS)
    assert any(fault.every_s for fault in drawn)
    for kind in ("hang", "partition", "partition-in", "slow-disk", "stall", "clock"):
        assert {fault.for_s is None for fault in drawn if fault.kind == kind} == {True, False}
    assert {fault.after_s > 20.0 for fault in drawn if fault.kind == "late-join"} == {True, False}


def test_silences_are_of_a_quarter_of_the_lease_to_three_leases():
    drawn = [fault for seed in range(400) for fault in schedule(seed, TWO, 8.0)]
    silent = [f.for_s / 4.0 for f in drawn if f.kind == "hang" and f.process in ("launcher", "host") and f.for_s]
    assert all(0.2 < share <= 3.0 for share in silent)
    assert all(sum(least < share <= least + 0.5 for share in silent) > 3 for least in (0.2, 0.75, 1.25, 2.5))


def test_faults_come_at_every_moment_but_only_where_it_is_known_what_they_may_do():
    drawn = [fault for seed in range(400) for fault in schedule(seed, TWO, 8.0)]
    assert {fault.since for fault in drawn} == set(MOMENTS)
    for fault in drawn:
        if fault.since == "start":
            assert fault.kind not in ("oom", "sigterm", *DISK) and fault.process != "script"
        if fault.since == "end":
            assert fault.process in ("worker", "dispatcher", "control") or fault.host.startswith("data")
            assert fault.kind != "second-job"
        if fault.kind in DISK:  # the job must be able to write down how it ended
            assert fault.since == "steps" and fault.for_s is not None


def test_where_hosts_have_networks_these_are_harmed_too_and_the_group_is_cut_off():
    drawn = [fault for seed in range(300) for fault in schedule(seed, NETWORKS, 8.0)]
    kinds_drawn = {fault.kind for fault in drawn}
    assert {"loss", "delay", "rate", "partition"} <= kinds_drawn
    assert not kinds_drawn & {*DISK}
    assert {"slow-disk", "slow-write", "clock", "partition-out", "stall"} <= kinds_drawn
    cut = {fault.host for fault in drawn if fault.kind == "partition"}
    assert cut == {"data_group", *NETWORKS.hosts}
    assert "data_group" not in {fault.host for fault in drawn if fault.kind != "partition"}


def test_without_a_data_service_and_others_nothing_is_aimed_at_them():
    drawn = [fault for seed in range(200) for fault in schedule(seed, ALONE, 8.0)]
    assert not {"worker", "dispatcher"} & {fault.process for fault in drawn}
    assert not {"partition", "late-join"} & {fault.kind for fault in drawn}


def test_a_job_with_a_feed_gets_faults_of_its_own_processes():
    aim = Aim(data_hosts=2, dnn_hosts=2, ranks=2, plane="feed")
    drawn = {(fault.kind, fault.process) for seed in range(300) for fault in schedule(seed, aim, 5.0)}
    assert {("kill", "feed"), ("hang", "feed"), ("kill", "host")} <= drawn
    assert not {process for _, process in drawn} & {"worker", "dispatcher"}
    assert "half-checkpoint" not in {kind for kind, _ in drawn}


def test_a_script_that_reads_tf_data_service_gets_the_faults_of_its_servers_and_none_of_checkpoints():
    aim = Aim(data_hosts=2, dnn_hosts=2, ranks=2, built_in=False)
    drawn = {(fault.kind, fault.process) for seed in range(300) for fault in schedule(seed, aim, 5.0)}
    assert {("kill", "worker"), ("hang", "dispatcher"), ("kill", "host")} <= drawn
    assert not {kind for kind, _ in drawn} & {"half-checkpoint", "second-job", "same-base", "clock"}


@pytest.mark.parametrize(("strategy", "ranks"), [("", 2), ("ray", 1)])
def test_a_job_with_ray_gets_faults_of_the_nodes_of_all_its_hosts(strategy: str, ranks: int):
    aim = Aim(data_hosts=2, dnn_hosts=2, ranks=ranks, plane="ray", strategy=strategy)
    drawn = [fault for seed in range(300) for fault in schedule(seed, aim, 5.0)]
    for kind in ("kill", "hang"):
        assert {fault.host for fault in drawn if (fault.kind, fault.process) == (kind, "ray")} == set(aim.hosts)
    assert not {fault.process for fault in drawn} & {"worker", "dispatcher", "feed"}
    assert {fault.rank for fault in drawn if fault.process == "script"} == set(range(ranks))
    assert all(Fault.parse(str(fault)) == fault for fault in drawn)
    assert aim.needing == (("dnn-1",) if strategy else ("dnn-1", "dnn-2"))
