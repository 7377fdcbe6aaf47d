from __future__ import annotations

from tfhet.cluster import Cluster, Group

CLUSTER = Cluster(
    (Group("data_group", ("algo-3",), "ml.c5.xlarge"), Group("dnn_group", ("algo-2", "algo-1"), None)), "eth0"
)


def test_a_cluster_describes_its_groups() -> None:
    assert CLUSTER.names == ("data_group", "dnn_group")
    assert CLUSTER.describe() == "data_group (algo-3), dnn_group (algo-2, algo-1)"


def test_a_cluster_is_heterogeneous_with_more_than_one_group_only() -> None:
    assert CLUSTER.is_heterogeneous
    assert not Cluster(CLUSTER.groups[:1], "eth0").is_heterogeneous
