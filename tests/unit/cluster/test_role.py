from __future__ import annotations

import pytest

from tfhet.cluster import DATA, DNN, ROLES, Cluster, Group, Identity, Role, roles
from tfhet.errors import ClusterError


def _identity(current: str, **groups: tuple[str, ...]) -> Identity:
    cluster = Cluster(tuple(Group(name, hosts, None) for name, hosts in groups.items()), "eth0")
    return Identity(cluster.groups[[g.name for g in cluster.groups].index(current)].hosts[0], current, cluster)


def test_groups_are_found_by_their_usual_names() -> None:
    found = roles(_identity("data_group", dnn_group=("a", "b"), data_group=("c",)))
    assert found.current is DATA
    assert found.data_hosts == ("c",)
    assert found.dnn_hosts == ("a", "b")
    assert roles(_identity("dnn_group", dnn_group=("a",), data_group=("c",))).current is DNN


def test_groups_are_found_by_the_names_told() -> None:
    found = roles(_identity("cpu", gpu=("a",), cpu=("b",)), {"data": "cpu", "dnn": "gpu"})
    assert (found.current, found.dnn.name) == (DATA, "gpu")


def test_one_name_told_is_enough_where_the_other_is_usual() -> None:
    found = roles(_identity("cpu", dnn_group=("a",), cpu=("b",)), {"data": "cpu", "dnn": ""})
    assert found.groups["data"].name == "cpu"


@pytest.mark.parametrize("name", ["homogeneousCluster", "dnn_group", "whatever"])
def test_the_one_group_of_a_homogeneous_job_trains(name: str) -> None:
    found = roles(_identity(name, **{name: ("a", "b")}))
    assert "data" not in found.groups
    assert found.data_hosts == ()
    assert found.dnn.name == name
    assert found.current is DNN


def test_only_a_data_group_is_a_job_without_a_dnn_group_unless_meant() -> None:
    identity = _identity("data_group", data_group=("a",))
    with pytest.raises(ClusterError, match=r"no dnn group.*data_group \(a\)"):
        roles(identity)
    assert roles(identity, {"dnn": "data_group"}).dnn.name == "data_group"


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({}, "no group 'data_group'.*--data_group NAME.*cpu .*gpu"),
        ({"data_group": "cpu"}, "no group 'dnn_group'.*--dnn_group NAME"),
        ({"data_group": "cpus", "dnn_group": "gpu"}, "--data_group says 'cpus', which this job does not have"),
        ({"data_group": "cpu", "dnn_group": "cpu"}, "'cpu' cannot be both data and dnn"),
    ],
)
def test_unknown_names_are_explained(told: dict[str, str], says: str) -> None:
    with pytest.raises(ClusterError, match=says):
        roles(
            _identity("cpu", cpu=("a",), gpu=("b",)),
            {name.removesuffix("_group"): group for name, group in told.items()},
        )


def test_the_same_group_by_name_and_by_default_is_refused() -> None:
    with pytest.raises(ClusterError, match="cannot be both"):
        roles(_identity("dnn_group", dnn_group=("a",), other=("b",)), {"data": "dnn_group"})


def test_a_name_told_in_a_homogeneous_job_must_be_there() -> None:
    identity = _identity("homogeneousCluster", homogeneousCluster=("a",))
    with pytest.raises(ClusterError, match="homogeneous: omit --data_group"):
        roles(identity, {"data": "cpu"})
    with pytest.raises(ClusterError, match="--dnn_group says 'gpu'"):
        roles(identity, {"dnn": "gpu"})


def test_a_group_without_hosts_is_named() -> None:
    with pytest.raises(ClusterError, match="'data_group' has no hosts"):
        roles(_identity("dnn_group", dnn_group=("a",), data_group=()))


def test_a_third_group_is_named_on_every_host() -> None:
    with pytest.raises(ClusterError, match="'extra' has no role"):
        roles(_identity("dnn_group", dnn_group=("a",), data_group=("b",), extra=("c",)))


def test_a_strategy_may_add_a_role_with_a_group_of_its_own() -> None:
    ps = Role("ps")
    found = roles(_identity("ps_group", dnn_group=("a",), data_group=("b",), ps_group=("c",)), known=(*ROLES, ps))
    assert found.current == ps
    assert (found.hosts("ps"), found.data_hosts, found.other_hosts) == (("c",), ("b",), ("b", "c"))
    found = roles(_identity("dnn_group", dnn_group=("a",), ps_group=("c",)), known=(*ROLES, ps))
    assert (found.current, found.data_hosts, found.other_hosts) == (DNN, (), ("c",))
    with pytest.raises(ClusterError, match="'extra' has no role"):
        roles(_identity("dnn_group", dnn_group=("a",), ps_group=("b",), extra=("c",)), known=(*ROLES, ps))
