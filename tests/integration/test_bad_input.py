"""Input that cannot work ends the job at every host, with a code and a cause that names the input."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tfhet.cluster import cache_dir, environment, free_ports
from tfhet.source.digits import digits

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(120)]


def codes(run) -> set[int]:
    """The exit codes of all launchers."""
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
    [pytest.param("exit", 3, "exit code 3", marks=pytest.mark.slow), ("raise", 1, "RuntimeError: the loss")],
)
def test_code_of_a_failed_rank_reaches_every_host(simulated, script, how, code, cause):
    run = simulated("--train_script", script("ends"), "--how", how, "--rank", 1, channels={})
    assert run.summary.exit_code == code
    assert codes(run) == {code} and len(run.summary.exit_codes) == 3
    all_hosts_say(run, "ends.py", "rank 1", cause)
    assert all("\ntraining rank=1 pid=" in text for text in run.failures().values())  # its last lines
    assert run.summary.teardown_s is not None


def test_missing_script_is_named_at_every_host(simulated):
    run = simulated("--train_script", "/nowhere/train.py", channels={})
    assert codes(run) == {2}
    all_hosts_say(run, "--train_script /nowhere/train.py")


def test_missing_channel_is_named_with_existing_ones(simulated, tmp_path):
    (tmp_path / "images").mkdir()
    channels = {"images": str(tmp_path / "images"), "training": str(tmp_path / "nowhere")}
    run = simulated("--model", "small_cnn", data=0, ranks=1, channels=channels)
    assert codes(run) == {2}
    all_hosts_say(run, "'training'", ": images")
    assert any(str(tmp_path / "nowhere") in line for line in run.lines)


def test_corrupt_record_is_named_by_file_and_offset(simulated, tmp_path):
    shutil.copytree(digits(cache_dir(environment()) / "digits" / "16-shards") / "train", tmp_path / "train")
    file = sorted((tmp_path / "train").glob("*.tfrecord*"))[5]
    data = bytearray(file.read_bytes())
    data[600] ^= 1  # in the first record's data, whose checksum only a reader looks at
    file.write_bytes(data)
    run = simulated("--model", "small_cnn", "--chain", "none", ranks=1, channels={"training": str(tmp_path / "train")})
    assert codes(run) == {1}
    all_hosts_say(run, str(run.hosts), file.name, "byte 0:")


def launch(base: Path, repository: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the launcher of the host whose files are at `base`."""
    env = {
        **os.environ,
        "PYTHONPATH": str(repository),
        "SAGEMAKER_BASE_DIR": str(base),
        "TFHET_ADDRESSES": '{"algo-1": "127.0.0.2", "algo-2": "127.0.0.3"}',
        **variables,
    }
    command = [sys.executable, str(repository / "scripts" / "launcher.py"), *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_launcher_without_a_dnn_group_names_groups(tmp_path, repository, host_directory):
    host_directory(tmp_path, {"data_group": ["algo-1"]}, "algo-1")
    result = launch(tmp_path, repository)
    assert result.returncode == 2
    for text in (result.stderr, (tmp_path / "output" / "failure").read_text()):
        assert "data_group (algo-1)" in text


@pytest.mark.parametrize("which", ["control", "dispatcher", "worker"])
def test_busy_port_is_named_with_its_process(tmp_path, repository, script, host_directory, which):
    host_directory(tmp_path, {"homogeneous": ["algo-1"]}, "algo-1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = dict(zip(("control", "dispatcher", "worker"), free_ports(3), strict=True)) | {which: port}
        ports = {"control": given["control"], "dispatcher": given["dispatcher"], "workers": [given["worker"]]}
        arguments = ["--train_script", script("ends"), "--how", "done", "--dnn_host_workers", 1]
        result = launch(tmp_path, repository, *arguments, TFHET_PORTS=json.dumps(ports))
    assert result.returncode == 2, result.stdout + result.stderr
    at = "127.0.0.1" if which == "control" else "0.0.0.0"
    assert re.search(f"port {port} at {at} .*{os.getpid()}", result.stdout)
    assert f"port {port}" in (tmp_path / "output" / "failure").read_text()
