"""The files and variables of a simulated host, read by the real SageMaker toolkit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sagemaker_toolkit import toolkit_environments

from tfhet.cluster import identify
from tfhet.simulate import ClusterFile, GroupFile, Simulation
from tfhet.simulate.host import resource_config
from tfhet.simulate.submission import hyperparameters

pytest.importorskip("sagemaker_training")

CLUSTERS = {
    "heterogeneous": {"data_group": GroupFile(2, 1, "ml.c5.xlarge"), "dnn_group": GroupFile(1, 2, "ml.p3.8xlarge")},
    "homogeneous": {"homogeneousCluster": GroupFile(1, 2, "ml.p3.8xlarge")},
}

PLATFORM = {"SAGEMAKER_BASE_DIR", "TRAINING_JOB_NAME", "SAGEMAKER_JOB_NAME", "CURRENT_HOST"}
APART = {"SM_USER_ARGS", "SM_TRAINING_ENV"}
"""Variables that are compared separately: the toolkit sorts the words of one, and keeps internal state in the other."""


@pytest.mark.timeout(60)
def test_toolkit_reads_simulated_hosts(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    launcher = tmp_path / "launcher.py"
    launcher.touch()
    command = [str(launcher), "--model", "small_cnn", "--epochs", "3", "--resume", "True"]
    ours, hosts = [], []
    for name, groups in CLUSTERS.items():
        simulation = Simulation(ClusterFile("c", groups), command, tmp_path / name)
        for host in simulation.hosts:
            config = resource_config(simulation.submission, host, simulation.hosts)
            parameters = hyperparameters(command, "job-1") | {
                "sagemaker_mpi_enabled": "true",
                "sagemaker_distribution_instance_groups": json.dumps(list(groups)[-1:]),
            }
            host.write(config, {"training": "File"}, parameters)
            host.paths.channel("training").mkdir()
            ours.append(host.variables(config, {"training": "File"}, parameters, "job-1", command))
            hosts.append({"SAGEMAKER_BASE_DIR": str(host.paths.base), "TRAINING_JOB_NAME": "job-1"})

    nowhere = {"SAGEMAKER_BASE_DIR": "/nowhere", "SM_INPUT_CONFIG_DIR": "/nowhere"}
    for variables, toolkit in zip(ours, toolkit_environments(hosts), strict=True):
        theirs = toolkit.variables
        assert sorted(_value(theirs["SM_USER_ARGS"])) == sorted(command[1:])
        own, all_of_it = _value(variables["SM_TRAINING_ENV"]), _value(theirs["SM_TRAINING_ENV"])
        assert own == {name: all_of_it[name] for name in own}
        names = set(variables) - PLATFORM - APART
        assert names == {name for name in theirs if name.startswith("SM_")} - APART
        assert {name: _value(theirs[name]) for name in names} == {name: _value(variables[name]) for name in names}
        assert sorted(toolkit.arguments) == sorted(command[1:])
        assert (toolkit.entry_point, toolkit.job_name) == (str(launcher), "job-1")
        assert identify(theirs | nowhere) == identify(variables)


def _value(text: str) -> Any:
    """The value of a variable, independent of the order of keys and the spaces in its JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text
