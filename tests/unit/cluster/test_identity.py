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


def test_a_real_file_is_read(tmp_path: Path) -> None:
    identity = _read(tmp_path, REAL)
    assert (identity.current_host, identity.current_group) == ("algo-1", "data_group")
    assert identity.cluster.is_heterogeneous
    assert identity.cluster.groups[0].hosts == ("algo-1",)
    assert identity.cluster.groups[0].instance_type == "ml.c5.xlarge"
    assert identity.cluster.network_interface == "eth0"


def test_the_toolkits_own_key_for_the_group_is_read(tmp_path: Path) -> None:
    document = {k: v for k, v in REAL.items() if k != "current_group_name"} | {"current_instance_group": "data_group"}
    assert _read(tmp_path, document).current_group == "data_group"


def test_without_a_key_for_the_group_the_host_tells_it(tmp_path: Path) -> None:
    document = {k: v for k, v in REAL.items() if k != "current_group_name"} | {"current_host": "algo-2"}
    assert _read(tmp_path, document).current_group == "dnn_group"


def test_the_old_form_without_groups_is_one_homogeneous_group(tmp_path: Path) -> None:
    document = {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"], "network_interface_name": "ethwe"}
    identity = _read(tmp_path, document)
    assert identity.current_group == "homogeneousCluster"
    assert identity.cluster.groups[0].hosts == ("algo-1", "algo-2")
    assert identity.cluster.network_interface == "ethwe"
    assert not identity.cluster.is_heterogeneous


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


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "input" / "config" / "resourceconfig.json").mkdir(parents=True)
    with pytest.raises(ClusterError, match=f"{tmp_path}.*cannot be read"):
        identify(_host(tmp_path))


def test_the_file_is_preferred_to_the_variables(tmp_path: Path) -> None:
    # mpirun hands the first host's SM_* variables to the ranks of all hosts.
    _write(tmp_path, REAL)
    env = {"SAGEMAKER_BASE_DIR": str(tmp_path), "SM_CURRENT_HOST": "algo-2", "SM_RESOURCE_CONFIG": json.dumps(REAL)}
    assert identify(env).current_host == "algo-1"


def test_a_broken_file_is_an_error_even_with_good_variables(tmp_path: Path) -> None:
    _write(tmp_path, "{")
    with pytest.raises(ClusterError, match="not JSON"):
        identify({"SAGEMAKER_BASE_DIR": str(tmp_path), "SM_RESOURCE_CONFIG": json.dumps(REAL)})


def test_without_a_file_the_variables_are_read(tmp_path: Path) -> None:
    from_variables = identify({**_host(tmp_path), "SM_RESOURCE_CONFIG": json.dumps(REAL)})
    assert from_variables == _read(tmp_path, REAL)


@pytest.mark.parametrize(
    "env",
    [
        {"SM_CURRENT_HOST": "algo-1"},
        {"SM_RESOURCE_CONFIG": "[]"},
        {"SM_RESOURCE_CONFIG": "{}"},
        {},
    ],
)
def test_variables_that_say_too_little_are_refused(tmp_path: Path, env: dict[str, str]) -> None:
    with pytest.raises(ClusterError):
        identify({**_host(tmp_path), **env})


def test_nothing_to_read_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="SAGEMAKER_BASE_DIR"):
        identify({"SAGEMAKER_BASE_DIR": str(tmp_path)})


def test_a_base_directory_that_cannot_be_is_a_cluster_error() -> None:
    with pytest.raises(ClusterError, match=r"resourceconfig\.json: cannot be read \(File name too long\)"):
        identify({"SAGEMAKER_BASE_DIR": "x" * 5000})
