"""follow/hosts.py: which host is in which group, from what launchers say."""

from __future__ import annotations

import pytest

from tfhet.cluster.group import HOMOGENEOUS_GROUP
from tfhet.follow.hosts import Introduction, cluster_of, placed
from tfhet.follow.state import InstanceGroup

DNN, DATA = InstanceGroup("dnn_group", "ml.p4d.24xlarge", 1), InstanceGroup("data_group", "ml.c5.18xlarge", 2)
DELIVERS = "[algo-3] heterogeneous job: delivers data, dispatcher 10.0.0.1:6000, 4 workers, group data_group"
TRAINS = (
    "[1,mpirank:0,algo-1]<stdout>:[algo-2/0] heterogeneous job: rank 0 of 8 (started by mpirun), dispatcher "
    "10.0.0.1:6000, 4 workers, group dnn_group; secret derived from the job's name (set TFHET_SECRET for a real one)"
)


def test_the_line_of_a_data_host_says_its_group_and_role() -> None:
    assert Introduction.parse(DELIVERS) == Introduction("data_group", "data")


def test_the_line_of_a_rank_says_how_many_there_are_whatever_mpirun_puts_before_it() -> None:
    assert Introduction.parse(TRAINS) == Introduction("dnn_group", "dnn", 8)


def test_the_group_may_have_any_name() -> None:
    said = "[algo-1/0] homogeneous job: rank 0 of 1 (without MPI), no data service, group my group, 2"
    assert Introduction.parse(said) == Introduction("my group, 2", "dnn", 1)


@pytest.mark.parametrize("text", ["", "job: delivers data", "[algo-1] heterogeneous job: makes tea, group data_group"])
def test_other_lines_are_no_introductions(text: str) -> None:
    assert Introduction.parse(text) is None


HOSTS = ["algo-1", "algo-2", "algo-3"]


def test_a_homogeneous_job_has_all_hosts_in_its_group_without_a_word() -> None:
    only = InstanceGroup(HOMOGENEOUS_GROUP, "ml.g5.xlarge", 3)
    assert placed([only], {}, HOSTS) == dict.fromkeys(HOSTS, HOMOGENEOUS_GROUP)


def test_the_hosts_of_the_last_group_are_those_that_are_left() -> None:
    assert placed([DNN, DATA], {"algo-2": "dnn_group"}, HOSTS) == {
        "algo-2": "dnn_group",
        "algo-1": "data_group",
        "algo-3": "data_group",
    }


def test_where_two_groups_lack_hosts_nobody_is_guessed() -> None:
    assert placed([DNN, DATA], {"algo-1": "data_group"}, HOSTS) == {"algo-1": "data_group"}
    assert placed([DNN, DATA], {"algo-1": "a group that the job has not"}, HOSTS) == {}


def test_the_cluster_has_as_many_hosts_as_are_paid_for_whoever_was_heard() -> None:
    told = {"algo-2": Introduction("dnn_group", "dnn", 8)}
    cluster = cluster_of([DNN, DATA], told, ["algo-2", "algo-3"])
    assert cluster["dnn_group"] == {
        "hosts": ["algo-2"],
        "instance_type": "ml.p4d.24xlarge",
        "role": "dnn",
        "ranks_per_host": 8,
    }
    assert cluster["data_group"]["hosts"] == ["algo-3", "data_group host 2"]
    assert cluster["data_group"]["role"] is None


def test_hosts_are_in_the_order_of_their_numbers() -> None:
    only = InstanceGroup(HOMOGENEOUS_GROUP, "ml.g5.xlarge", 2)
    (group,) = cluster_of([only], {}, ["algo-10", "algo-2"]).values()
    assert group["hosts"] == ["algo-2", "algo-10"] and group["role"] == "dnn"
