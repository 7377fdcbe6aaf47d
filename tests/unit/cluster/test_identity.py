from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfhet.cluster import Identity, identify
from tfhet.errors import ClusterError

REAL = {
    "current_group_name": "data_group",
    "current_host": "algo-1",
    "current_instance_type": "ml.c5.xlarge",
    "hosts": ["algo-1", "algo-2"],
    "instance_groups": [
        {"hosts": ["algo-1"], "instance_group_name": "data_group", "instance_type": "ml.c5.xlarge"},
        {"hosts": ["algo-2"], "instance_group_name": "dnn_group", "instance_type": "ml.m4.xlarge"},
    ],
    "network_interface_name": "eth0",
}


def _write(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "input" / "config" / "resourceconfig.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def _host(tmp_path: Path) -> dict[str, str]:
    return {"SAGEMAKER_BASE_DIR": str(tmp_path)}


def _read(tmp_path: Path, document: object) -> Identity:
    _write(tmp_path, document)
    return identify(_host(tmp_path))


WITHOUT_GROUP = {key: value for key, value in REAL.items() if key != "current_group_name"}
OLD = {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"], "network_interface_name": "ethwe"}


@pytest.mark.parametrize(
    ("document", "host", "group", "groups", "interface"),
    [
        (REAL, "algo-1", "data_group", [("algo-1",), ("algo-2",)], "eth0"),
        (
            WITHOUT_GROUP | {"current_instance_group": "data_group"},
            "algo-1",
            "data_group",
            [("algo-1",), ("algo-2",)],
            "eth0",
        ),
        (WITHOUT_GROUP | {"current_host": "algo-2"}, "algo-2", "dnn_group", [("algo-1",), ("algo-2",)], "eth0"),
        (OLD, "algo-2", "homogeneousCluster", [("algo-1", "algo-2")], "ethwe"),
    ],
    ids=["file", "key of the toolkit", "no current group", "old form"],
)
def test_description_is_read(tmp_path: Path, document, host, group, groups, interface) -> None:
    identity = _read(tmp_path, document)
    assert (identity.current_host, identity.current_group) == (host, group)
    assert [one.hosts for one in identity.cluster.groups] == groups
    assert identity.cluster.network_interface == interface
    assert identity == identify({"SAGEMAKER_BASE_DIR": "/nowhere", "SM_RESOURCE_CONFIG": json.dumps(document)})
    types = [one.instance_type for one in identity.cluster.groups]
    assert types == ([None] if document is OLD else ["ml.c5.xlarge", "ml.m4.xlarge"])


GROUP = {"hosts": ["algo-1"], "instance_group_name": "data_group"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"current_host": "algo-7"}, "'algo-7'"),
        ({"current_host": None}, "`current_host` is None"),
        ({"current_host": "-"}, "`current_host` is '-'"),
        ({"current_group_name": "dnn_group"}, "'data_group'"),
        ({"current_group_name": 7}, "`current_group_name` is 7"),
        ({"hosts": ["algo-1"]}, "algo-2"),
        ({"hosts": ["algo-1", "algo-1"]}, "algo-2"),
        ({"hosts": ["algo-1", "algo-2", "algo-2"]}, "algo-2"),
        ({"hosts": "algo-1"}, "`hosts`"),
        ({"hosts": ["algo-1", 2]}, r"`hosts\[1\]` is 2"),
        ({"instance_groups": "x"}, "`instance_groups`"),
        ({"instance_groups": [7]}, r"`instance_groups\[0\]` is 7"),
        ({"instance_groups": [], "hosts": []}, "hosts"),
        ({"instance_groups": [GROUP | {"instance_group_name": ""}]}, r"`instance_groups\[0\].instance_group_name`"),
        ({"instance_groups": [GROUP, GROUP]}, "'data_group'"),
        ({"instance_groups": [GROUP, GROUP | {"instance_group_name": "b"}]}, "'data_group' and 'b'"),
        ({"network_interface_name": 7}, "`network_interface_name`"),
    ],
)
def test_an_unsound_description_is_refused(tmp_path: Path, change: dict[str, object], field: str) -> None:
    path = _write(tmp_path, REAL | change)
    with pytest.raises(ClusterError, match=field) as raised:
        identify(_host(tmp_path))
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", "null", "[" * 5000, '"x"', "\ufeff{}", "1" * 5000])
def test_what_is_not_a_json_object_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ClusterError):
        _read(tmp_path, text)


def test_file_wins_over_variables(tmp_path: Path) -> None:
    # mpirun passes the first host's SM_* variables to the ranks of all hosts.
    env = {**_host(tmp_path), "SM_CURRENT_HOST": "algo-2", "SM_RESOURCE_CONFIG": json.dumps(REAL)}
    _write(tmp_path, REAL | {"current_host": "algo-2", "current_group_name": "dnn_group"})
    assert identify(env).current_host == "algo-2"
    _write(tmp_path, "{")
    with pytest.raises(ClusterError, match="not JSON"):
        identify(env)
    (path := _write(tmp_path, REAL)).unlink()
    path.mkdir()
    with pytest.raises(ClusterError, match=str(path)):
        identify(env)


@pytest.mark.parametrize(
    "env", [{}, {"SM_CURRENT_HOST": "algo-1"}, {"SM_RESOURCE_CONFIG": "[]"}, {"SM_RESOURCE_CONFIG": "{}"}]
)
def test_insufficient_variables_are_refused(tmp_path: Path, env: dict[str, str]) -> None:
    with pytest.raises(
        ClusterError, match="SM_RESOURCE_CONFIG" if "SM_RESOURCE_CONFIG" in env else "SAGEMAKER_BASE_DIR"
    ):
        identify({**_host(tmp_path), **env})
    with pytest.raises(ClusterError, match="File name too long"):
        identify({"SAGEMAKER_BASE_DIR": "x" * 5000})
