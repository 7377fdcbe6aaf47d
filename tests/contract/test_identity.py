"""The identity of a host from its file, and from the variables that the real SageMaker toolkit sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sagemaker_toolkit import toolkit_environments

from tfhet.cluster import identify

pytest.importorskip("sagemaker_training")

HETEROGENEOUS: dict[str, Any] = {
    "current_group_name": "dnn_group",
    "current_host": "algo-2",
    "current_instance_type": "ml.m4.xlarge",
    "hosts": ["algo-1", "algo-2", "algo-3"],
    "instance_groups": [
        {"hosts": ["algo-3", "algo-2"], "instance_group_name": "dnn_group", "instance_type": "ml.m4.xlarge"},
        {"hosts": ["algo-1"], "instance_group_name": "data_group", "instance_type": "ml.c5.xlarge"},
    ],
    "network_interface_name": "eth0",
}
HOMOGENEOUS: dict[str, Any] = {
    "current_group_name": "homogeneousCluster",
    "current_host": "algo-1",
    "current_instance_type": "ml.c5.xlarge",
    "hosts": ["algo-1", "algo-2"],
    "instance_groups": [
        {"hosts": ["algo-1", "algo-2"], "instance_group_name": "homogeneousCluster", "instance_type": "ml.c5.xlarge"}
    ],
    "network_interface_name": "ethwe",
}
OLD: dict[str, Any] = {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"], "network_interface_name": "eth0"}
OLD_WITH_TYPE: dict[str, Any] = OLD | {"current_instance_type": "ml.p3.2xlarge"}
TOOLKITS_OWN: dict[str, Any] = {
    "current_host": "here",
    "hosts": ["here"],
    "current_instance_group": "homogeneousCluster",
    "instance_groups": [{"instance_group_name": "homogeneousCluster", "instance_type": "local", "hosts": ["here"]}],
}
OTHER_KEY: dict[str, Any] = {
    ("current_instance_group" if key == "current_group_name" else key): value for key, value in HETEROGENEOUS.items()
}


def _host(base: Path, document: dict[str, Any]) -> Path:
    config = base / "input" / "config"
    config.mkdir(parents=True)
    channel = {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"}
    (config / "resourceconfig.json").write_text(json.dumps(document))
    (config / "inputdataconfig.json").write_text(json.dumps({"training": channel}))
    parameters = {
        "epochs": "1",
        "sagemaker_program": '"launcher.py"',
        "sagemaker_job_name": '"job-1"',
        "sagemaker_region": '"eu-west-1"',
        "sagemaker_mpi_enabled": "true",
        "sagemaker_distribution_instance_groups": '["dnn_group"]',
    }
    (config / "hyperparameters.json").write_text(json.dumps(parameters))
    return config / "resourceconfig.json"


DOCUMENTS = (HETEROGENEOUS, HOMOGENEOUS, OLD, OLD_WITH_TYPE, TOOLKITS_OWN, OTHER_KEY)


@pytest.mark.timeout(60)
def test_file_and_toolkits_variables_agree(tmp_path: Path) -> None:
    bases = [tmp_path / str(number) for number in range(len(DOCUMENTS))]
    for base, document in zip(bases, DOCUMENTS, strict=True):
        _host(base, document)
    nowhere = {"SAGEMAKER_BASE_DIR": "/nowhere", "SM_INPUT_CONFIG_DIR": "/nowhere"}
    for base, found in zip(
        bases, toolkit_environments({"SAGEMAKER_BASE_DIR": str(base)} for base in bases), strict=True
    ):
        assert identify(found.variables | nowhere) == identify({"SAGEMAKER_BASE_DIR": str(base)})
