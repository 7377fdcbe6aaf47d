"""Whatever stands in a description of the cluster, reading it gives a sound identity or a ClusterError."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given, strategies as st

from tfhet.cluster import Ports, identify, resolve, roles
from tfhet.cluster.environment import parse_json
from tfhet.cluster.identity import describe
from tfhet.errors import ClusterError, UsageError
from tfhet.strategies import JobContext, rank_of

NOWHERE = {"SAGEMAKER_BASE_DIR": "/nowhere"}
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(
    ["algo-1", "algo-2", "algo-3", "data_group", "dnn_group", "homogeneousCluster", "", "a b", "\ud800"]
)
ALMOST_NAMES = NAMES | SCALARS
GROUPS = st.lists(
    st.fixed_dictionaries(
        {"instance_group_name": ALMOST_NAMES, "hosts": st.lists(ALMOST_NAMES, max_size=3) | ANYTHING},
        optional={"instance_type": SCALARS},
    )
    | ANYTHING,
    max_size=3,
)
ALMOST = st.fixed_dictionaries(
    {},
    optional={
        "current_host": ALMOST_NAMES,
        "current_group_name": ALMOST_NAMES,
        "current_instance_group": ALMOST_NAMES,
        "current_instance_type": SCALARS,
        "hosts": st.lists(ALMOST_NAMES, max_size=3) | ANYTHING,
        "instance_groups": GROUPS | ANYTHING,
        "network_interface_name": SCALARS,
    },
)


@st.composite
def sound(draw: st.DrawFn) -> dict[str, Any]:
    hosts = draw(st.lists(st.sampled_from([f"algo-{n}" for n in range(1, 9)]), min_size=1, unique=True))
    cut = draw(st.integers(0, len(hosts) - 1))
    groups = [{"instance_group_name": "dnn_group", "instance_type": "ml.p3.2xlarge", "hosts": hosts[cut:]}]
    if cut:
        groups.insert(
            draw(st.integers(0, 1)),
            {"instance_group_name": "data_group", "instance_type": "local", "hosts": hosts[:cut]},
        )
    current = draw(st.sampled_from(hosts))
    owner = next(g["instance_group_name"] for g in groups if current in g["hosts"])
    document: dict[str, Any] = {"current_host": current, "hosts": sorted(hosts), "instance_groups": groups}
    key = draw(st.sampled_from(["current_group_name", "current_instance_group", None]))
    return document | ({key: owner} if key else {})


def _is_sound(identity: Any) -> None:
    hosts = {group.name: group.hosts for group in identity.cluster.groups}
    names = [name for each in hosts.values() for name in each]
    assert len(set(names)) == len(names)
    assert len(set(identity.cluster.names)) == len(identity.cluster.names)
    assert identity.current_host in hosts[identity.current_group]


@given(ALMOST | ANYTHING)
def test_any_json_value_is_sound_or_a_cluster_error(document: object) -> None:
    with contextlib.suppress(ClusterError):
        _is_sound(describe(json.loads(json.dumps(document)), "here"))


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_is_json_or_a_cluster_error(text: str | bytes) -> None:
    with contextlib.suppress(ClusterError):
        parse_json(text, "here")


@given(
    st.dictionaries(
        st.sampled_from(["SM_CURRENT_HOST", "SM_RESOURCE_CONFIG"]),
        st.text(max_size=20) | NAMES | (ALMOST | ANYTHING | GROUPS).map(json.dumps),
    )
)
def test_any_variables_are_sound_or_a_cluster_error(env: dict[str, str]) -> None:
    with contextlib.suppress(ClusterError):
        _is_sound(identify({**NOWHERE, **env}))


@given(sound())
def test_a_sound_description_is_read_and_its_roles_found(document: dict[str, Any]) -> None:
    identity = identify({**NOWHERE, "SM_RESOURCE_CONFIG": json.dumps(document)})
    _is_sound(identity)
    assert identity.current_host == document["current_host"]
    found = roles(identity)
    assert sorted(found.data_hosts + found.dnn_hosts) == document["hosts"]
    assert (identity.current_host in found.dnn_hosts) == (found.current.name == "dnn")


@given(st.text(max_size=60) | (ANYTHING | ALMOST).map(json.dumps))
def test_any_variable_of_ours_is_read_or_a_usage_error(text: str) -> None:
    env = {"TFHET_PORTS": text, "TFHET_ADDRESSES": text, "TFHET_JOB": text, "OMPI_COMM_WORLD_RANK": text}
    for read in (Ports.from_env, JobContext.from_env, rank_of, lambda e: resolve("algo-1", e)):
        with contextlib.suppress(UsageError):
            read(env)  # type: ignore[operator]
