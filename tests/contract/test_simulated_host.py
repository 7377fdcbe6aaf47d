"""A simulated host's files and variables are what the real SageMaker toolkit reads and would set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfhet.cluster import identify
from tfhet.simulate import ClusterFile, GroupFile, Simulation
from tfhet.simulate.host import resource_config
from tfhet.simulate.submission import hyperparameters

pytest.importorskip("sagemaker_training")

CLUSTERS = {
    "heterogeneous": {"data_group": GroupFile(2, 1, "ml.c5.xlarge"), "dnn_group": GroupFile(1, 2, "ml.p3.8xlarge")},
    "homogeneous": {"homogeneousCluster": GroupFile(1, 2, "ml.p3.8xlarge")},
}

NOT_THE_TOOLKITS = {"SAGEMAKER_BASE_DIR", "TRAINING_JOB_NAME", "SAGEMAKER_JOB_NAME", "CURRENT_HOST", "SM_USER_ARGS"}
"""Variables of the platform, or of the host, and the one that is compared apart."""

# In a process of its own: the toolkit reads its base directory when imported, and changes the environment.
ASK_THE_TOOLKIT = """
import json, sys
from sagemaker_training.environment import Environment
toolkit = Environment()
json.dump([toolkit.to_env_vars(), toolkit.to_cmd_args(), toolkit.user_entry_point, toolkit.job_name], sys.stdout)
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("groups", CLUSTERS.values(), ids=CLUSTERS)
def test_toolkit_reads_the_simulated_host(tmp_path: Path, groups: dict[str, GroupFile]) -> None:
    (tmp_path / "train").mkdir()
    launcher = tmp_path / "launcher.py"
    launcher.touch()
    command = [str(launcher), "--model", "small_cnn", "--epochs", "3"]
    simulation = Simulation(ClusterFile("c", groups), command, tmp_path / "run")
    for host in simulation.hosts:
        config = resource_config(simulation.submission, host, simulation.hosts)
        host.write(config, {"training": "File"}, hyperparameters(command, "job-1"))
        host.paths.channel("training").mkdir()
        variables = host.variables(config, ["training"], "job-1", command[1:])

        env = {name: value for name, value in os.environ.items() if not name.startswith(("SM_", "SAGEMAKER_"))}
        env |= {"SAGEMAKER_BASE_DIR": str(host.paths.base), "TRAINING_JOB_NAME": "job-1"}
        asked = [sys.executable, "-c", ASK_THE_TOOLKIT]
        done = subprocess.run(asked, env=env, capture_output=True, text=True, timeout=50, check=False)
        assert done.returncode == 0, done.stderr
        toolkits, arguments, program, job = json.loads(done.stdout.splitlines()[-1])

        assert sorted(_value(toolkits.pop("SM_USER_ARGS"))) == sorted(command[1:])  # the toolkit sorts them
        ours = set(variables) - NOT_THE_TOOLKITS
        assert ours <= set(toolkits)
        assert {name: _value(toolkits[name]) for name in ours} == {name: _value(variables[name]) for name in ours}
        assert sorted(arguments) == sorted(command[1:])
        assert (program, job) == (str(launcher), "job-1")
        nowhere = {"SAGEMAKER_BASE_DIR": "/nowhere", "SM_INPUT_CONFIG_DIR": "/nowhere"}
        assert identify(toolkits | nowhere) == identify(variables)


def _value(text: str) -> object:
    """A variable's value, whatever the order of keys and the spaces in its JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text
