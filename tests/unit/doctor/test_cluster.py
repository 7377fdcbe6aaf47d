from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.doctor import Status
from tfhet.doctor.cluster import CLUSTER, look
from tfhet.errors import UsageError
from tfhet.simulate import presets

FILE = """
groups:
  data_group: {{hosts: 2, instance_type: ml.c5.xlarg}}
  dnn_group: {{hosts: 1, ranks: 1, instance_type: ml.p3.2xlarge}}
channels: {{training: {there}, validation: {gone}}}
launcher: {{data_host_workers: 2, data_host_worker: 3}}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a.tfrecord", "b.tfrecord", "tfhet.json", ".hidden", "labels.txt"):
        (data / name).touch()
    path = tmp_path / "cluster.yaml"
    path.write_text(FILE.format(there=data, gone=tmp_path / "gone"))
    return str(path)


def test_facts_of_a_cluster_file(file):
    found = look(file)
    assert (found.workers, found.data_hosts, found.dnn_hosts) == (4, 2, 1)
    assert found.files == {"training": 2, "validation": None}
    assert "ml.c5.xlarg" not in found.types and "ml.c5.xlarge" in found.unknown_types["ml.c5.xlarg"]
    assert found.mistyped == {"--data_host_worker": "--data_host_workers"}
    checks = {check.name: check for check in CLUSTER.checks(found)}
    assert checks["channels"].status is Status.WRONG and "gone" in checks["channels"].found
    assert checks["files and workers"].status is Status.LIMITED


def test_refused_arguments_are_a_finding(file):
    path = Path(file)
    path.write_text(path.read_text().replace("data_host_workers: 2", "lease_s: 0"))
    found = look(file)
    assert "--lease_s" in found.refused
    assert found.workers == 2, "the defaults stand in"


@pytest.mark.parametrize("name", presets())
def test_shipped_clusters_are_sound(name):
    assert not [check for check in CLUSTER.checks(look(name)) if check.is_fatal]


def test_unknown_cluster_is_refused():
    with pytest.raises(UsageError, match="nothing-of-that-name"):
        look("nothing-of-that-name")
