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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lease_s", "soon"], "--lease-s"),
        (["--lease_s", "0"], "--lease_s must be positive, not 0.0"),
        (["--on_data_loss", "wait"], "unknown --on_data_loss 'wait'; known: local, stop"),
        (["--on_data_loss", "local", "--data_plane", "feed"], "with --data_plane feed: no rank prepares its own data"),
        (["--on-data-loss", ""], "unknown --on_data_loss ''; known: local, stop"),
        (["--stall_timeout_s", "-1"], "--stall_timeout_s must not be negative: -1.0; 0 switches it off"),
        (["--stall_timeout_s", "nan"], "--stall_timeout_s must not be negative: nan"),
        (["--ready_timeout_s", "-1"], "--ready_timeout_s must be positive"),
        (["--lease_s", "nan"], "--lease_s must be positive, not nan"),
        (["--data_host_workers", "-1"], "--data_host_workers must be between 0 and 256, not -1"),
        (["--dnn_host_workers", "257"], "--dnn_host_workers must be between 0 and 256"),
        (["--dnn_host_workers", "1.5"], "--dnn-host-workers"),
        (["--processes_per_host", "-1"], "--processes_per_host must be between 0 and 256, not -1"),
        (["--reserve_cpus", "-2"], "--reserve_cpus -2: give a number of CPUs, or -1 to have it measured"),
        (["--train_script"], "--train-script"),
        (["--metrics_port", "-1"], "--metrics_port -1 is no TCP port; 0 switches it off"),
        (["--metrics_port", "65536"], "--metrics_port 65536 is no TCP port"),
        (["--emf_namespace", "AWS/mine"], "--emf_namespace 'AWS/mine': give 1 to 255 letters"),
        (["--emf_namespace", "a b"], "--emf_namespace 'a b'"),
        (["--emf_namespace", "x" * 256], "--emf_namespace 'xxx"),
    ],
)
def test_a_value_that_cannot_be_is_named(words, message):
    with pytest.raises(UsageError) as caught:
        LaunchSettings.parse(words)
    assert message in str(caught.value)
