"""follow/heard.py: which host is in which group, from what launchers say."""

from __future__ import annotations

from tfhet.cluster import HOMOGENEOUS_GROUP
from tfhet.follow.heard import Heard, cluster_of, placed
from tfhet.follow.state import InstanceGroup
from tfhet.messages import HostLine

DNN, DATA = InstanceGroup("dnn_group", "ml.p4d.24xlarge", 1), InstanceGroup("data_group", "ml.c5.18xlarge", 2)


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
    heard = Heard({"algo-2": HostLine("heterogeneous", "dnn", "dnn_group", 8), "algo-3": None})
    cluster = cluster_of([DNN, DATA], heard)
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
    (group,) = cluster_of([only], Heard({"algo-10": None, "algo-2": None})).values()
    assert group["hosts"] == ["algo-2", "algo-10"] and group["role"] == "dnn"
