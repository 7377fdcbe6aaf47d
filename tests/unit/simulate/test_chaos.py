from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfhet.__main__ import main
from tfhet.launch.settings import LaunchSettings
from tfhet.simulate import Fault, load
from tfhet.simulate.chaos import FAILURE, GOES_ON, NEVER_JOINED, STOP, WEIGHTS, Aim, allowed, harmful, schedule

SETTINGS = LaunchSettings(lease_s=4.0, ready_timeout_s=20.0)
DEMO = Aim.of(load("demo"), SETTINGS)
TWO = Aim.of(load("two-data-two-dnn"), SETTINGS)
ALONE = Aim.of(load("homogeneous"), SETTINGS)
NETWORKS = Aim.of(load("two-data-two-dnn"), SETTINGS, networks=True)


def kinds(aim: Aim, *faults: str) -> set[str]:
    return set(allowed([Fault.parse(text) for text in faults], aim))


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


def test_every_kind_is_drawn_also_repeated_short_and_too_late():
    drawn = [fault for seed in range(200) for fault in schedule(seed, TWO, 8.0)]
    assert {(fault.kind, fault.process) for fault in drawn} == set(WEIGHTS)
    assert any(fault.every_s for fault in drawn)
    for kind in ("hang", "partition", "slow-disk"):
        assert {fault.for_s is None for fault in drawn if fault.kind == kind} == {True, False}
    assert {fault.after_s > 20.0 for fault in drawn if fault.kind == "late-join"} == {True, False}


def test_where_hosts_have_networks_these_are_harmed_too_and_the_group_is_cut_off():
    drawn = [fault for seed in range(300) for fault in schedule(seed, NETWORKS, 8.0)]
    kinds_drawn = {fault.kind for fault in drawn}
    assert {"loss", "delay", "rate", "partition"} <= kinds_drawn
    assert "slow-disk" not in kinds_drawn
    cut = {fault.host for fault in drawn if fault.kind == "partition"}
    assert cut == {"data_group", *NETWORKS.hosts}
    assert "data_group" not in {fault.host for fault in drawn if fault.kind != "partition"}


@pytest.mark.parametrize(
    ("fault", "may"),
    [
        ("loss=3%:data-1", {GOES_ON}),
        ("delay=100ms:dnn-1", {GOES_ON}),
        ("rate=20mbit:dnn-2:for=2", {GOES_ON}),
        ("partition:data-1", {GOES_ON}),
        ("partition:data_group:for=0.5", {GOES_ON}),
        ("partition:data_group", {FAILURE}),
    ],
)
def test_a_bad_network_ends_no_job_and_a_group_cut_off_for_good_does(fault: str, may: set[str]):
    assert kinds(NETWORKS, fault) == may


def test_without_a_data_service_and_others_nothing_is_aimed_at_them():
    drawn = [fault for seed in range(200) for fault in schedule(seed, ALONE, 8.0)]
    assert not {"worker", "dispatcher"} & {fault.process for fault in drawn}
    assert not {"partition", "late-join"} & {fault.kind for fault in drawn}


@pytest.mark.parametrize(
    ("faults", "may"),
    [
        ([], {GOES_ON}),
        (["kill:worker", "kill:dispatcher", "bad-peer:control", "slow-disk:data-1"], {GOES_ON}),
        (["hang:worker", "hang:dispatcher", "hang:launcher@dnn-1:for=1", "hang:host@data-1:for=1"], {GOES_ON}),
        (["late-join:data-1:after=3", "partition:dnn-1:for=1"], {GOES_ON}),
        (["kill:rank=1"], {FAILURE}),
        (["oom:rank=0", "kill:worker"], {FAILURE}),
        (["oom:worker"], {GOES_ON, FAILURE}),
        (["kill:launcher@dnn-1"], {FAILURE}),
        (["hang:host@dnn-1"], {FAILURE}),
        (["partition:dnn-1"], {FAILURE}),
        (["partition:dnn-1:for=7"], {FAILURE}),
        (["partition:dnn-1:for=3"], {GOES_ON, FAILURE}),
        (["partition:dnn-1:for=1.5", "hang:host@dnn-1:for=1.5"], {GOES_ON, FAILURE}),  # may add up
        (["kill:host@data-1"], {FAILURE}),
        (["partition:data-1"], {FAILURE}),
        (["partition:data-1:for=3"], {GOES_ON, FAILURE}),
        (["sigterm:launcher@data-1"], {STOP}),
        (["sigterm:host@dnn-1", "kill:worker"], {STOP}),
        (["sigterm:host@dnn-1", "kill:rank=0"], {STOP, FAILURE}),
        (["late-join:data-1:after=50"], {NEVER_JOINED}),
        (["late-join:data-1:after=50", "kill:rank=0"], {NEVER_JOINED}),
        (["late-join:data-1:after=15"], {GOES_ON, NEVER_JOINED}),
    ],
)
def test_what_may_become_of_the_demo(faults: list[str], may: set[str]):
    assert kinds(DEMO, *faults) == may


@pytest.mark.parametrize(
    ("faults", "may"),
    [
        (["kill:host@data-1"], {GOES_ON}),
        (["kill:launcher@data-2", "hang:worker@data-1"], {GOES_ON}),
        (["kill:host@data-1", "hang:host@data-2"], {FAILURE}),
        (["kill:host@data-1", "partition:data-2:for=3"], {GOES_ON, FAILURE}),
        (["kill:host@data-1", "partition:data-2:for=1"], {GOES_ON}),
        (["kill:host@data-1", "kill:host@dnn-2"], {FAILURE}),
    ],
)
def test_a_data_host_that_is_lost_costs_the_job_nothing_while_another_serves(faults: list[str], may: set[str]):
    assert kinds(TWO, *faults) == may


def test_who_serves_beside_the_data_hosts_or_does_without_decides_what_their_loss_costs():
    lost = ["kill:host@data-1"]
    assert kinds(Aim.of(load("demo"), serving_too), *lost) == {GOES_ON}
    assert kinds(Aim.of(load("demo"), LaunchSettings(on_data_loss="local")), *lost) == {GOES_ON}
    assert kinds(Aim.of(load("two-data-two-dnn"), LaunchSettings(train_script="mine.py")), *lost) == {FAILURE}


def test_harm_is_what_may_end_a_job_or_costs_it_a_host():
    harm = ("kill:rank=1", "sigterm:launcher@dnn-1", "oom:worker", "kill:host@data-1", "partition:data-2")
    assert all(harmful(Fault.parse(text), TWO) for text in harm)
    none = ("kill:worker", "hang:dispatcher", "partition:data-1:for=1", "slow-disk:dnn-1", "late-join:data-1:after=2")
    assert not any(harmful(Fault.parse(text), TWO) for text in none)


def test_what_the_command_draws_is_printed_and_can_be_given_again(tmp_path: Path, capsys):
    launcher, cluster = tmp_path / "launcher.py", tmp_path / "one.yaml"
    launcher.write_text("pass")
    cluster.write_text("{name: one, groups: {all: {ranks: 1}}}")
    words = ["--quiet", "--chaos", "3", "--chaos-s", "20", "--run-dir", str(tmp_path / "run"), "--", str(launcher)]
    main(["simulate", str(cluster), *words])
    said = capsys.readouterr().out.split("\n")
    aim = Aim(data_hosts=0, dnn_hosts=1, ranks=1)
    drawn = schedule(3, aim, 20.0)
    assert said[0] == "chaos, the same as: " + " ".join(f"--fault {fault}" for fault in drawn)
    assert tuple(Fault.parse(text) for text in re.findall(r"--fault (\S+)", said[0])) == drawn
    assert said[1] == "what may become of it: " + ", ".join(sorted(allowed(drawn, aim)))
