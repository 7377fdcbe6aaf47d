from __future__ import annotations

import pytest

from tfhet.cluster import DATA, DNN, ROLES, Cluster, Group, Identity, Role, roles
from tfhet.errors import ClusterError

PS = Role("ps")


def identity(current: str, **groups: str) -> Identity:
    """The identity of the first host of a group. groups: one letter for each host."""
    cluster = Cluster(tuple(Group(name, tuple(hosts), None) for name, hosts in groups.items()), "eth0")
    assert cluster.is_heterogeneous == (len(groups) > 1) and cluster.names == tuple(groups)
    return Identity(groups[current][0], current, cluster)


@pytest.mark.parametrize(
    ("here", "names", "current", "dnn", "data"),
    [
        (identity("data_group", dnn_group="ab", data_group="c"), {}, DATA, "ab", "c"),
        (identity("dnn_group", dnn_group="a", data_group="c"), {}, DNN, "a", "c"),
        (identity("cpu", gpu="a", cpu="b"), {"data": "cpu", "dnn": "gpu"}, DATA, "a", "b"),
        (identity("cpu", dnn_group="a", cpu="b"), {"data": "cpu", "dnn": ""}, DATA, "a", "b"),
        (identity("cpu", gpu="a", cpu="b"), {"dnn": "gpu"}, DATA, "a", "b"),
        *((identity(name, **{name: "ab"}), {}, DNN, "ab", "") for name in ("homogeneousCluster", "dnn_group", "any")),
        (identity("data_group", data_group="a"), {"dnn": "data_group"}, DNN, "a", ""),
    ],
)
def test_groups_have_roles(here, names, current, dnn, data) -> None:
    found = roles(here, names)
    assert (found.current, found.dnn_hosts, found.data_hosts) == (current, tuple(dnn), tuple(data))


@pytest.mark.parametrize(
    ("here", "names", "words"),
    [
        (identity("data_group", data_group="a"), {}, r"--dnn_group .*"),
        (identity("cpu", cpu="a", gpu="b"), {}, "--data_group NAME.*cpu .*gpu"),
        (identity("cpu", cpu="a", gpu="b"), {"data": "cpu"}, "--dnn_group NAME"),
        (identity("cpu", cpu="a", gpu="b"), {"data": "cpus", "dnn": "gpu"}, "--data_group .*'cpus'"),
        (identity("cpu", cpu="a", gpu="b"), {"data": "cpu", "dnn": "cpu"}, "'cpu' .*data and dnn"),
        (identity("dnn_group", dnn_group="a", other="b"), {"data": "dnn_group"}, "'dnn_group'"),
        (identity("homogeneousCluster", homogeneousCluster="a"), {"data": "cpu"}, "omit --data_group"),
        (identity("homogeneousCluster", homogeneousCluster="a"), {"dnn": "gpu"}, "--dnn_group .*'gpu'"),
        (identity("dnn_group", dnn_group="a", data_group=""), {}, "'data_group'"),
        (identity("dnn_group", dnn_group="a", data_group="b", extra="c"), {}, "'extra'"),
    ],
)
def test_wrong_groups_are_refused(here, names, words) -> None:
    with pytest.raises(ClusterError, match=words):
        roles(here, names)


def test_strategy_adds_a_role() -> None:
    found = roles(identity("ps_group", dnn_group="a", data_group="b", ps_group="c"), known=(*ROLES, PS))
    assert found.current == PS
    assert (found.hosts("ps"), found.data_hosts, found.other_hosts) == (("c",), ("b",), ("b", "c"))
    found = roles(identity("dnn_group", dnn_group="a", ps_group="c"), known=(*ROLES, PS))
    assert (found.current, found.data_hosts, found.other_hosts) == (DNN, (), ("c",))
    with pytest.raises(ClusterError, match="'extra'"):
        roles(identity("dnn_group", dnn_group="a", ps_group="b", extra="c"), known=(*ROLES, PS))
