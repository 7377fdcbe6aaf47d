from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.cluster import HostPaths, cache_dir, config_dir, environment, host_paths, job_name


def test_the_environment_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFHET_TEST_VARIABLE", "before")
    seen = environment()
    monkeypatch.setenv("TFHET_TEST_VARIABLE", "after")
    assert seen["TFHET_TEST_VARIABLE"] == "before"


def test_the_base_directory_is_opt_ml_unless_told_otherwise() -> None:
    assert host_paths({}).base == Path("/opt/ml")
    assert host_paths({"SAGEMAKER_BASE_DIR": ""}).base == Path("/opt/ml")
    assert host_paths({"SAGEMAKER_BASE_DIR": "/tmp/job"}).base == Path("/tmp/job")


def test_the_cache_directory_follows_xdg() -> None:
    assert cache_dir({"XDG_CACHE_HOME": "/var/cache/me"}) == Path("/var/cache/me/tfhet")
    assert cache_dir({"HOME": "/home/me"}) == Path("/home/me/.cache/tfhet")
    assert cache_dir({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}) == Path("/home/me/.cache/tfhet")
    assert cache_dir({}).name == "tfhet"


def test_the_directory_of_what_a_user_writes_follows_xdg_too() -> None:
    assert config_dir({"XDG_CONFIG_HOME": "/etc/me", "XDG_CACHE_HOME": "/var/cache/me"}) == Path("/etc/me/tfhet")
    assert config_dir({"XDG_CONFIG_HOME": "relative", "HOME": "/home/me"}) == Path("/home/me/.config/tfhet")


def test_paths_follow_sagemakers_layout() -> None:
    paths = HostPaths(Path("/opt/ml"))
    assert paths.resource_config == Path("/opt/ml/input/config/resourceconfig.json")
    assert paths.hyperparameters == Path("/opt/ml/input/config/hyperparameters.json")
    assert paths.channel("train") == Path("/opt/ml/input/data/train")
    assert paths.model == Path("/opt/ml/model")
    assert paths.output_data == Path("/opt/ml/output/data")
    assert paths.failure == Path("/opt/ml/output/failure")
    assert paths.checkpoints == Path("/opt/ml/checkpoints")
    assert paths.code == Path("/opt/ml/code")
    assert paths.input_data == Path("/opt/ml/input/data")


def test_variables_of_sagemaker_win_over_the_layout() -> None:
    paths = host_paths(
        {
            "SAGEMAKER_BASE_DIR": "/job",
            "SM_MODEL_DIR": "/elsewhere/model",
            "SM_OUTPUT_DATA_DIR": "/elsewhere/data",
            "SM_CHANNEL_TRAINING": "/fast/training",
        }
    )
    assert paths.model == Path("/elsewhere/model")
    assert paths.output_data == Path("/elsewhere/data")
    assert paths.channel("training") == Path("/fast/training")
    assert paths.channel("validation") == Path("/job/input/data/validation")
    assert paths.base == Path("/job")


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ({"TRAINING_JOB_NAME": "a", "SM_TRAINING_ENV": '{"job_name": "b"}'}, "a"),
        ({"SM_TRAINING_ENV": '{"job_name": "b"}', "SAGEMAKER_JOB_NAME": "c"}, "b"),
        ({"SM_TRAINING_ENV": '{"job_name": null}', "SAGEMAKER_JOB_NAME": "c"}, "c"),
        ({"SM_TRAINING_ENV": "rubbish", "SAGEMAKER_JOB_NAME": "c"}, "c"),
        ({"SM_TRAINING_ENV": "[1]"}, ""),
        ({}, ""),
    ],
)
def test_the_jobs_name_is_found_where_the_platform_or_the_toolkit_puts_it(env: dict[str, str], name: str) -> None:
    assert job_name(env) == name
