from __future__ import annotations

import json
from pathlib import Path

from tfhet.cluster import HostPaths, Ports, identify, job_name
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.submission import hyperparameters

CONFIG = {
    "current_host": "algo-2",
    "current_instance_type": "ml.c5.xlarge",
    "current_group_name": "data_group",
    "hosts": ["algo-1", "algo-2"],
    "instance_groups": [
        {"instance_group_name": "dnn_group", "instance_type": "ml.p3.8xlarge", "hosts": ["algo-1"]},
        {"instance_group_name": "data_group", "instance_type": "ml.c5.xlarge", "hosts": ["algo-2"]},
    ],
    "network_interface_name": "lo",
}


def host(base: Path) -> SimulatedHost:
    return SimulatedHost("algo-2", "data_group", "ml.c5.xlarge", "127.0.0.3", Ports(), 1, HostPaths(base / "algo-2"))


def written(tmp_path: Path, checkpoints: Path | None = None) -> SimulatedHost:
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "file").write_text("data")
    made = host(tmp_path)
    channels = {"training": tmp_path / "digits"}
    made.write(CONFIG, {"training": "File"}, {"epochs": "1"})
    for place, directory in made.directories(channels, tmp_path, checkpoints).items():
        place.symlink_to(directory)
    return made


def test_the_directories_are_laid_out_as_sagemaker_does(tmp_path: Path):
    base = written(tmp_path).paths.base
    assert (base / "input" / "data" / "training" / "file").read_text() == "data"
    assert sorted(p.name for p in (base / "input" / "config").iterdir()) == [
        "hyperparameters.json",
        "inputdataconfig.json",
        "resourceconfig.json",
    ]
    for directory in ("model", "output/data", "checkpoints", "code"):
        assert (base / directory).is_dir()
    assert not (base / "output" / "failure").exists()


def test_checkpoints_may_outlive_the_host(tmp_path: Path):
    kept = tmp_path / "kept" / "checkpoints"
    made = written(tmp_path, kept)
    (made.paths.checkpoints / "one").touch()
    assert [path.name for path in kept.iterdir()] == ["one"]


def test_file_and_variables_say_the_same(tmp_path: Path):
    made = written(tmp_path)
    variables = made.variables(CONFIG, ["training"], "job-1", ["--epochs", "1"])
    nowhere = {"SAGEMAKER_BASE_DIR": "/nowhere", "SM_INPUT_CONFIG_DIR": "/nowhere"}
    assert identify(variables) == identify({**variables, **nowhere})
    assert identify(variables).current_group == "data_group"
    assert job_name(variables) == "job-1"


def test_the_variables_name_the_directories(tmp_path: Path):
    made = host(tmp_path)
    variables = made.variables(CONFIG, ["training"], "job-1", ["--epochs", "1"])
    base = str(tmp_path / "algo-2")
    assert variables["SAGEMAKER_BASE_DIR"] == base
    assert variables["SM_CHANNEL_TRAINING"] == f"{base}/input/data/training"
    assert variables["SM_OUTPUT_DATA_DIR"] == f"{base}/output/data"
    assert variables["SM_MODEL_DIR"] == f"{base}/model"
    assert json.loads(variables["SM_USER_ARGS"]) == ["--epochs", "1"]


def test_hyperparameters_are_json_as_text():
    command = ["launcher.py", "--model", "resnet50", "--epochs", "3", "--resume", "True", "--flag"]
    parameters = hyperparameters(command, "job-1")
    assert {name: json.loads(text) for name, text in parameters.items()} == {
        "sagemaker_program": "launcher.py",
        "sagemaker_job_name": "job-1",
        "model": "resnet50",
        "epochs": 3,
        "resume": "True",
        "flag": "",
    }
