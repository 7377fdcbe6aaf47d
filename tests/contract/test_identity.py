"""Both readers of a host's identity say the same about the same job; the real SageMaker toolkit sets the variables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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

# In a process of its own: the toolkit reads its base directory when imported, and changes the environment.
ASK_THE_TOOLKIT = """
import json, sys
from sagemaker_training.environment import Environment
json.dump(Environment().to_env_vars(), sys.stdout)
"""


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


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "document",
    [HETEROGENEOUS, HOMOGENEOUS, OLD, OLD_WITH_TYPE, TOOLKITS_OWN, OTHER_KEY],
    ids=["heterogeneous", "homogeneous", "old", "old-with-type", "toolkits-own", "toolkits-key"],
)
def test_file_and_toolkit_variables_agree(tmp_path: Path, document: dict[str, Any]) -> None:
    _host(tmp_path, document)
    from_file = identify({"SAGEMAKER_BASE_DIR": str(tmp_path)})

    root = Path(__file__).parents[2]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SM_", "SAGEMAKER_"))}
    env |= {"SAGEMAKER_BASE_DIR": str(tmp_path), "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", ASK_THE_TOOLKIT], env=env, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    variables = json.loads(done.stdout.splitlines()[-1])

    assert identify(variables | {"SAGEMAKER_BASE_DIR": "/nowhere", "SM_INPUT_CONFIG_DIR": "/nowhere"}) == from_file


def test_document_of_the_version_3_sdk_suffices(tmp_path: Path) -> None:
    _host(tmp_path, HETEROGENEOUS)
    from_file = identify({"SAGEMAKER_BASE_DIR": str(tmp_path)})
    exported = {"SAGEMAKER_BASE_DIR": "/nowhere", "SM_RESOURCE_CONFIG": json.dumps(HETEROGENEOUS)}
    assert identify(exported) == from_file
