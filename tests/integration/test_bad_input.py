"""Input that cannot work ends the job at every host within moments, with a code and a cause that says what to do."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tfhet.cluster import cache_dir, environment, free_ports
from tfhet.errors import UsageError
from tfhet.source.digits import digits

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(120)]


def codes(run) -> set[int]:
    """The exit codes of all launchers."""
    assert len(run.summary.exit_codes) >= 2
    return set(run.summary.exit_codes.values())


def all_hosts_say(run, *words: str) -> None:
    """Asserts that every host's failure file, and the record, contain each of `words`."""
    failures = run.failures()
    assert set(failures) == {path.name for path in run.hosts.iterdir()}
    for text in [*failures.values(), run.summary.cause]:
        for word in words:
            assert word in text


@pytest.mark.parametrize(
    ("how", "code", "cause"),
    [("exit", 3, "exit code 3"), ("raise", 1, "RuntimeError: the loss is not a number")],
)
def test_the_code_of_a_script_that_fails_on_one_rank_comes_out_at_every_host(simulated, script, how, code, cause):
    run = simulated("--train_script", script("ends"), "--how", how, "--rank", 1, channels={})
    assert run.summary.exit_code == code
    assert codes(run) == {code} and len(run.summary.exit_codes) == 3
    all_hosts_say(run, "ends.py", "rank 1", cause)
    assert all("\ntraining rank=1 pid=" in text for text in run.failures().values())  # its last lines
    assert run.summary.teardown_s is not None and run.summary.teardown_s < 10


def test_a_script_that_is_not_there_is_named_at_every_host(simulated):
    run = simulated("--train_script", "/nowhere/train.py", channels={})
    assert codes(run) == {2}
    all_hosts_say(run, "--train_script /nowhere/train.py: no such file")


def test_a_missing_channel_is_named_with_those_that_are_there(simulated, tmp_path):
    (tmp_path / "images").mkdir()
    channels = {"images": str(tmp_path / "images"), "training": str(tmp_path / "nowhere")}
    run = simulated("--model", "small_cnn", data=0, channels=channels)
    assert codes(run) == {2}
    all_hosts_say(run, "channel 'training' is missing", "channels that are there: images")
    assert run.found(r"channel training: (.*) is no directory") == [(str(tmp_path / "nowhere"),)]


def test_a_corrupt_record_is_named_by_file_and_offset(simulated, tmp_path):
    shutil.copytree(digits(cache_dir(environment()) / "digits" / "16-shards") / "train", tmp_path / "train")
    file = sorted((tmp_path / "train").glob("*.tfrecord*"))[5]
    data = bytearray(file.read_bytes())
    data[600] ^= 1  # in the first record's data, whose checksum only a reader looks at
    file.write_bytes(data)
    run = simulated("--model", "small_cnn", "--chain", "none", ranks=1, channels={"training": str(tmp_path / "train")})
    assert codes(run) == {1}
    all_hosts_say(run, f"bad record in {run.hosts}", file.name, "at byte 0:")


def test_a_cluster_without_a_dnn_group_is_refused_before_anything_starts(simulated, tmp_path):
    with pytest.raises(UsageError, match=r"no host trains: there is no group 'gpu'.*groups: data_group"):
        simulated("--dnn_group", "gpu")


def resource_config(base: Path, groups: dict[str, list[str]], host: str) -> None:
    """Lays out a host by hand, as the platform does."""
    config = base / "input" / "config"
    config.mkdir(parents=True)
    described = [
        {"instance_group_name": name, "instance_type": "ml.m5.large", "hosts": hosts} for name, hosts in groups.items()
    ]
    document = {
        "current_host": host,
        "current_group_name": next(name for name, hosts in groups.items() if host in hosts),
        "current_instance_type": "ml.m5.large",
        "hosts": sorted(host for hosts in groups.values() for host in hosts),
        "instance_groups": described,
        "network_interface_name": "lo",
    }
    (config / "resourceconfig.json").write_text(json.dumps(document))


def launch(base: Path, repository: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the launcher of the host whose files lie at `base`."""
    env = {
        **os.environ,
        "PYTHONPATH": str(repository),
        "SAGEMAKER_BASE_DIR": str(base),
        "TFHET_ADDRESSES": '{"algo-1": "127.0.0.2", "algo-2": "127.0.0.3"}',
        **variables,
    }
    command = [sys.executable, str(repository / "scripts" / "launcher.py"), *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_a_launcher_in_a_job_without_a_dnn_group_names_the_groups_that_are_there(tmp_path, repository):
    resource_config(tmp_path, {"data_group": ["algo-1"]}, "algo-1")
    result = launch(tmp_path, repository)
    assert result.returncode == 2
    for text in (result.stderr, (tmp_path / "output" / "failure").read_text()):
        assert "this job has no dnn group: its only group is data_group (algo-1)" in text


@pytest.mark.parametrize("which", ["control", "dispatcher", "worker"])
def test_a_busy_port_is_named_with_the_process_that_has_it(tmp_path, repository, script, which):
    resource_config(tmp_path, {"homogeneous": ["algo-1"]}, "algo-1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = dict(zip(("control", "dispatcher", "worker"), free_ports(3), strict=True)) | {which: port}
        ports = {"control": given["control"], "dispatcher": given["dispatcher"], "workers": [given["worker"]]}
        arguments = ["--train_script", script("ends"), "--how", "done", "--dnn_host_workers", 1]
        result = launch(tmp_path, repository, *arguments, TFHET_PORTS=json.dumps(ports))
    assert result.returncode == 2, result.stdout + result.stderr
    at = "127.0.0.1" if which == "control" else "0.0.0.0"
    assert f"port {port} at {at} is in use by process {os.getpid()}" in result.stdout
    assert f"port {port}" in (tmp_path / "output" / "failure").read_text()
