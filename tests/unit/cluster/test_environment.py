from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.cluster import cache_dir, config_dir, environment, host_paths, job_name


def test_environment_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFHET_TEST_VARIABLE", "before")
    seen = environment()
    monkeypatch.setenv("TFHET_TEST_VARIABLE", "after")
    assert seen["TFHET_TEST_VARIABLE"] == "before"


@pytest.mark.parametrize(
    ("env", "cache", "config"),
    [
        ({"XDG_CACHE_HOME": "/cache", "XDG_CONFIG_HOME": "/config"}, "/cache/tfhet", "/config/tfhet"),
        ({"HOME": "/home/me"}, "/home/me/.cache/tfhet", "/home/me/.config/tfhet"),
        (
            {"XDG_CACHE_HOME": "relative", "XDG_CONFIG_HOME": "relative", "HOME": "/home/me"},
            "/home/me/.cache/tfhet",
            "/home/me/.config/tfhet",
        ),
    ],
)
def test_user_directories_follow_xdg(env: dict[str, str], cache: str, config: str) -> None:
    assert (cache_dir(env), config_dir(env)) == (Path(cache), Path(config))
    assert cache_dir({}).name == "tfhet"


@pytest.mark.parametrize(("env", "base"), [({}, "/opt/ml"), ({"SAGEMAKER_BASE_DIR": "/job"}, "/job")])
def test_paths_follow_sagemakers_layout(env: dict[str, str], base: str) -> None:
    paths = host_paths({"SAGEMAKER_BASE_DIR": "", **env})
    places = {
        paths.base: "",
        paths.resource_config: "input/config/resourceconfig.json",
        paths.hyperparameters: "input/config/hyperparameters.json",
        paths.input_data: "input/data",
        paths.channel("train"): "input/data/train",
        paths.model: "model",
        paths.output_data: "output/data",
        paths.failure: "output/failure",
        paths.checkpoints: "checkpoints",
        paths.code: "code",
    }
    assert all(path == Path(base, place) for path, place in places.items())
    paths = host_paths({**env, "SM_MODEL_DIR": "/a", "SM_OUTPUT_DATA_DIR": "/b", "SM_CHANNEL_TRAINING": "/c"})
    assert (paths.model, paths.output_data, paths.channel("training")) == (Path("/a"), Path("/b"), Path("/c"))
    assert paths.channel("validation") == Path(base, "input/data/validation")


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
def test_job_name_of_platform_or_toolkit(env: dict[str, str], name: str) -> None:
    assert job_name(env) == name
