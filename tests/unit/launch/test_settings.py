from __future__ import annotations

import pytest

from tfhet.errors import UsageError
from tfhet.launch import LaunchSettings
from tfhet.planes.tf_service import ServiceSettings


def test_names_are_taken_with_dashes_and_with_underscores():
    words = ["--lease-s", "4", "--ready_timeout_s=7.5", "--dnn-host-workers", "2", "--data_group", "cpu"]
    settings, rest = LaunchSettings.parse(words)
    service = ServiceSettings(dnn_host_workers=2)
    expected = LaunchSettings(lease_s=4.0, ready_timeout_s=7.5, data_group="cpu", planes={"tf_service": service})
    assert settings == expected
    assert rest == []


def test_what_the_launcher_does_not_know_goes_to_the_script_in_order_and_as_it_is():
    script = [
        "--model",
        "resnet50",
        "-x",
        "--cut",
        "-1",
        "word",
        "--chain=rescale()",
        "--flag",
        "--lr",
        "1e-3",
        "--l",
        "9",
    ]
    settings, rest = LaunchSettings.parse([*script[:5], "--job_seed", "7", *script[5:]])
    assert settings.job_seed == 7
    assert rest == script


def test_no_name_is_guessed_from_its_beginning():
    settings, rest = LaunchSettings.parse(["--lease", "4", "--train", "x.py"])
    assert settings == LaunchSettings()
    assert rest == ["--lease", "4", "--train", "x.py"]


@pytest.mark.parametrize("name", ["--tfhet_secret", "--tfhet-secret"])
def test_the_secret_goes_no_further(name):
    _, rest = LaunchSettings.parse(["--epochs", "1", name, "s" * 65, "--model", "m"])
    assert rest == ["--epochs", "1", "--model", "m"]


def test_the_last_of_two_values_counts():
    assert LaunchSettings.parse(["--lease_s", "4", "--lease_s", "5"])[0].lease_s == 5


def test_losing_all_data_hosts_stops_the_job_unless_told_otherwise():
    assert LaunchSettings().on_data_loss == "stop"
    assert LaunchSettings.parse(["--on-data-loss", "local"]) == (LaunchSettings(on_data_loss="local"), [])


def test_an_empty_value_is_not_told():
    assert LaunchSettings.parse(["--train_script", "", "--data_group", ""])[0] == LaunchSettings()


@pytest.mark.parametrize(
    "words",
    [
        ["--lease_s", "soon"],
        ["--lease_s", "0"],
        ["--lease_s", "nan"],
        ["--on_data_loss", "wait"],
        ["--on_data_loss", "local", "--data_plane", "feed"],
        ["--on-data-loss", ""],
        ["--stall_timeout_s", "-1"],
        ["--stall_timeout_s", "nan"],
        ["--ready_timeout_s", "-1"],
        ["--data_host_workers", "-1"],
        ["--dnn_host_workers", "257"],
        ["--dnn_host_workers", "1.5"],
        ["--processes_per_host", "-1"],
        ["--reserve_cpus", "-2"],
        ["--train_script"],
        ["--timeline", "all"],
        ["--metrics_port", "-1"],
        ["--metrics_port", "65536"],
        ["--emf_namespace", "AWS/mine"],
        ["--emf_namespace", "a b"],
        ["--emf_namespace", "x" * 256],
    ],
)
def test_a_wrong_value_is_named(words):
    with pytest.raises(UsageError) as caught:
        LaunchSettings.parse(words)
    assert words[0].replace("-", "_") in str(caught.value).replace("-", "_")


def test_the_timeline_is_one_of_three():
    assert LaunchSettings.parse(["--timeline", "steps"])[0].timeline == "steps"
