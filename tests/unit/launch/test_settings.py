from __future__ import annotations

import pytest

from tfhet.errors import UsageError
from tfhet.launch import LaunchSettings
from tfhet.planes.tf_service import ServiceSettings

SERVICE = {"tf_service": ServiceSettings(dnn_host_workers=2)}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--lease-s", "4", "--ready_timeout_s=7.5", "--dnn-host-workers", "2", "--data_group", "cpu"],
            LaunchSettings(lease_s=4.0, planes=SERVICE, data_group="cpu", ready_timeout_s=7.5),
        ),
        (["--lease_s", "4", "--lease_s", "5"], LaunchSettings(lease_s=5)),
        (["--on-data-loss", "local", "--timeline", "steps"], LaunchSettings(on_data_loss="local", timeline="steps")),
        (["--train_script", "", "--data_group", ""], LaunchSettings()),
        (["--tfhet-secret", "s" * 65], LaunchSettings()),  # read from the environment, and not passed on
        (["--tfhet_secret", "s" * 65], LaunchSettings()),
    ],
)
def test_arguments_are_parsed(words, expected):
    assert LaunchSettings.parse(words) == (expected, [])


def test_other_arguments_reach_the_script():
    script = ["--model", "resnet50", "-x", "--cut", "-1", "word", "--chain=rescale()", "--flag", "--lr", "1e-3"]
    script += ["--lease", "4", "--train", "x.py"]  # no name is guessed from its beginning
    settings, rest = LaunchSettings.parse([*script[:5], "--job_seed", "7", *script[5:]])
    assert settings == LaunchSettings(job_seed=7) and rest == script


WRONG = """
lease_s=soon lease_s=0 lease_s=1e-320 lease_s=nan lease_s=inf lease_s=-1
ready_timeout_s=inf stall_timeout_s=inf ready_timeout_s=1e8 stall_timeout_s=-1 stall_timeout_s=nan ready_timeout_s=-1
on_data_loss=wait on-data-loss= data_host_workers=-1 dnn_host_workers=257 dnn_host_workers=1.5
processes_per_host=-1 reserve_cpus=-2 timeline=all metrics_port=-1 metrics_port=65536 emf_namespace=AWS/mine
"""
TWO_WORDS = (["--on_data_loss", "local", "--data_plane", "feed"], ["--train_script"], ["--emf_namespace", "a b"])


@pytest.mark.parametrize(
    "words", [*([f"--{word}"] for word in WRONG.split()), *TWO_WORDS, ["--emf_namespace", "x" * 256]], ids=" ".join
)
def test_a_wrong_value_is_named(words):
    with pytest.raises(UsageError) as caught:
        LaunchSettings.parse(words)
    name = words[0].partition("=")[0]
    assert name.replace("-", "_") in str(caught.value).replace("-", "_")
