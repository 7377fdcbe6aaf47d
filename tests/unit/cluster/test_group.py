from __future__ import annotations

import pytest

from tfhet.cluster import Cluster, Group
from tfhet.errors import ClusterError

CLUSTER = Cluster(
    (Group("data_group", ("algo-3",), "ml.c5.xlarge"), Group("dnn_group", ("algo-2", "algo-1"), None)), "eth0"
)


def test_groups_and_hosts_are_found_by_name() -> None:
    assert CLUSTER.group("dnn_group").first == "algo-2"
    assert CLUSTER.names == ("data_group", "dnn_group")
    assert CLUSTER.hosts == ("algo-3", "algo-2", "algo-1")


def test_an_error_names_what_is_there() -> None:
    everything = r"data_group \(algo-3\), dnn_group \(algo-2, algo-1\)"
    with pytest.raises(ClusterError, match=f"no group 'gpu'.*{everything}"):
        CLUSTER.group("gpu")


def test_a_group_without_hosts_has_no_first_one() -> None:
    with pytest.raises(ClusterError, match="'empty' has no hosts"):
        Group("empty", (), None).first  # noqa: B018


def test_a_cluster_is_heterogeneous_with_more_than_one_group_only() -> None:
    assert CLUSTER.is_heterogeneous
    assert not Cluster(CLUSTER.groups[:1], "eth0").is_heterogeneous
