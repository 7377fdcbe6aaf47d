"""Any sound description of a cluster is read, and its roles are found; test_fuzz_cluster.py has the unsound ones."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, strategies as st

from tfhet.cluster import identify, roles


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


@given(sound())
def test_sound_description_gives_hosts_and_roles(document: dict[str, Any]) -> None:
    identity = identify({"SAGEMAKER_BASE_DIR": "/nowhere", "SM_RESOURCE_CONFIG": json.dumps(document)})
    hosts = {group.name: group.hosts for group in identity.cluster.groups}
    assert sorted(name for each in hosts.values() for name in each) == document["hosts"]
    assert identity.current_host == document["current_host"] in hosts[identity.current_group]
    found = roles(identity)
    assert sorted(found.data_hosts + found.dnn_hosts) == document["hosts"]
    assert (identity.current_host in found.dnn_hosts) == (found.current.name == "dnn")
