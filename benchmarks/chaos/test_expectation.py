from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.chaos.expectation import FAILURE, GOES_ON, NEVER_JOINED, STOP, allowed, harmful
from benchmarks.chaos.schedule import Aim
from tfhet.launch import LaunchSettings
from tfhet.simulate import Fault, load

SETTINGS = LaunchSettings(lease_s=4.0, ready_timeout_s=20.0)
DEMO = Aim.of(load("demo"), SETTINGS)
TWO = Aim.of(load("two-data-two-dnn"), SETTINGS)
NETWORKS = Aim.of(load("two-data-two-dnn"), SETTINGS, networks=True)
RAY = replace(TWO, plane="ray")
RAY_SCRIPT = replace(RAY, strategy="ray", ranks=1)


def kinds(aim: Aim, *faults: str) -> set[str]:
    return set(allowed([Fault.parse(text) for text in faults], aim))


@pytest.mark.parametrize(
    ("faults", "may"),
    [
        ([], {GOES_ON}),
        (["kill:worker", "kill:dispatcher", "stranger:data-1", "slow-disk:data-1"], {GOES_ON}),
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
        (["partition-in:dnn-1"], {FAILURE}),
        (["partition-out:data-1:for=12"], {FAILURE}),
        (["hang:launcher@dnn-1:for=12"], {FAILURE}),
        (["hang:host@dnn-1:for=8.5", "hang:host@data-1:for=5.1"], {GOES_ON, FAILURE}),  # neither sees the other's
        (["hang:host@dnn-1:for=12", "hang:host@data-1:for=3"], {FAILURE}),
        (["hang:host@dnn-1", "hang:host@data-1:for=5.1"], {FAILURE}),
        (["stall:dnn-1", "slow-write:dnn-1", "clock=-600s:dnn-1", "slow-dns=2s:data-1"], {GOES_ON}),
        (["second-job:dnn-1", "same-base:data-1", "half-checkpoint:dnn-1", "full-disk:data-1"], {GOES_ON}),
        (["full-disk:dnn-1:for=2"], {GOES_ON, FAILURE}),
        (["failing-write:dnn-1:for=2", "sigterm:launcher@data-1"], {STOP, FAILURE}),
        (["kill:worker:from=start"], {GOES_ON, FAILURE, NEVER_JOINED}),
        (["kill:worker:from=end", "stall:dnn-1:from=start", "hang:host@dnn-1:from=start:for=1"], {GOES_ON}),
        (["kill:host@data-1:from=start"], {FAILURE, NEVER_JOINED}),
        (["hang:launcher@dnn-1:from=start"], {FAILURE, NEVER_JOINED}),
        (["partition:data-1:from=start:for=3"], {GOES_ON, FAILURE, NEVER_JOINED}),
        (["partition-in:dnn-1:from=start:for=12"], {GOES_ON, FAILURE, NEVER_JOINED}),
        (["partition-in:dnn-1:from=start"], {FAILURE, NEVER_JOINED}),
        (["kill:host@data-1"], {FAILURE}),
        (["partition:data-1"], {FAILURE}),
        (["partition:data-1:for=3"], {GOES_ON, FAILURE}),
        (["sigterm:launcher@data-1"], {STOP}),
        (["sigterm:host@dnn-1", "kill:worker"], {STOP}),
        (["sigterm:host@data-1", "partition:data-1:for=2"], {STOP}),
        (["sigterm:host@data-1", "partition:data-1"], {STOP, FAILURE}),
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
        (["hang:launcher@data-1:for=12"], {GOES_ON}),
        (["sigterm:host@data-1", "partition:data-1"], {GOES_ON, STOP}),
        (["sigterm:host@data-2", "partition:data-1"], {STOP}),
        (["kill:host@data-1:from=start"], {GOES_ON, FAILURE, NEVER_JOINED}),
    ],
)
def test_a_data_host_that_is_lost_costs_the_job_nothing_while_another_serves(faults: list[str], may: set[str]):
    assert kinds(TWO, *faults) == may


def test_who_serves_beside_the_data_hosts_or_does_without_decides_what_their_loss_costs():
    lost = ["kill:host@data-1"]
    serving_too, _ = LaunchSettings.parse(["--dnn_host_workers", "1"])
    assert kinds(Aim.of(load("demo"), serving_too), *lost) == {GOES_ON}
    assert kinds(Aim.of(load("demo"), LaunchSettings(on_data_loss="local")), *lost) == {GOES_ON}
    assert kinds(Aim.of(load("two-data-two-dnn"), LaunchSettings(train_script="mine.py")), *lost) == {FAILURE}


def test_a_host_that_a_script_of_its_own_loses_before_it_reads_is_not_missed():
    own = replace(TWO, built_in=False)
    assert kinds(own, "kill:launcher@data-2:from=scripts:after=0.1") == {GOES_ON, FAILURE}
    assert kinds(own, "kill:launcher@data-2:from=start:after=2.3") == {GOES_ON, FAILURE, NEVER_JOINED}
    assert kinds(own, "kill:launcher@data-2:after=0.1") == {FAILURE}


@pytest.mark.parametrize(
    ("faults", "may"),
    [
        (["kill:ray@data-1", "hang:ray@data-2"], {GOES_ON}),
        (["kill:ray@data-1:from=start"], {GOES_ON, FAILURE, NEVER_JOINED}),
        (["kill:host@data-1", "kill:ray@data-2"], {GOES_ON}),
        (["kill:host@data-1", "hang:launcher@data-2"], {FAILURE}),
        (["kill:ray@dnn-1"], {FAILURE}),
        (["kill:ray@dnn-2"], {FAILURE}),
        (["kill:ray@dnn-2:from=start"], {FAILURE, NEVER_JOINED}),
        (["hang:ray@dnn-1"], {FAILURE}),
        (["hang:ray@dnn-1:for=5"], {GOES_ON}),
        (["hang:ray@dnn-2:for=9"], {GOES_ON, FAILURE}),
        (["kill:rank=0", "kill:ray@data-1"], {FAILURE}),
    ],
)
def test_a_job_that_reads_ray_data_needs_the_nodes_of_its_ranks_and_one_data_host(faults: list[str], may: set[str]):
    assert kinds(RAY, *faults) == may


def test_a_script_for_ray_needs_the_node_of_its_own_host_alone():
    assert kinds(RAY_SCRIPT, "kill:ray@dnn-2", "hang:ray@dnn-2", "kill:ray@data-1") == {GOES_ON}
    assert kinds(RAY_SCRIPT, "kill:ray@dnn-1") == {FAILURE}
    assert kinds(RAY_SCRIPT, "kill:host@dnn-2") == {FAILURE}


def test_harm_is_what_may_end_a_job_or_costs_it_a_host():
    harm = ("kill:rank=1", "sigterm:launcher@dnn-1", "oom:worker", "kill:host@data-1", "partition:data-2")
    assert all(harmful(Fault.parse(text), TWO) for text in harm)
    none = ("kill:worker", "hang:dispatcher", "partition:data-1:for=1", "slow-disk:dnn-1", "late-join:data-1:after=2")
    assert not any(harmful(Fault.parse(text), TWO) for text in none)


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
