"""The job without MPI: every host is started once and in the same way, and the leader starts the ranks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tfhet.cluster import cache_dir, environment, free_ports
from tfhet.record import RunFolder
from tfhet.source.digits import digits

pytestmark = [pytest.mark.timeout(200)]

GROUPS = {"data_group": ["algo-2"], "dnn_group": ["algo-3", "algo-1"]}
ADDRESSES = {"algo-1": "127.0.0.2", "algo-2": "127.0.0.3", "algo-3": "127.0.0.4"}
CHIEF = "algo-3"


class Job:
    """One launcher on each of three hosts, whose files are below `folder`."""

    def __init__(self, folder: Path, launcher: Path, host_directory: Callable[..., Path], arguments: list[str]):
        self.folder = folder
        control, dispatcher, worker = free_ports(3)
        data = digits(cache_dir(environment()) / "digits" / "16-shards")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for host in (host for hosts in GROUPS.values() for host in hosts):
            env = {
                **os.environ,
                "PYTHONPATH": str(launcher.parents[1]),
                "SAGEMAKER_BASE_DIR": str(host_directory(folder / host, GROUPS, host, data / "train")),
                "TRAINING_JOB_NAME": "alone",
                "TFHET_ADDRESSES": json.dumps(ADDRESSES),
                "TFHET_PORTS": json.dumps({"control": control, "dispatcher": dispatcher, "workers": [worker]}),
            }
            command = [sys.executable, str(launcher), "--processes_per_host", "2", "--lease_s", "5", *arguments]
            with open(folder / f"{host}.log", "wb") as log:
                self.processes[host] = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)

    def log(self, host: str) -> str:
        return (self.folder / f"{host}.log").read_text()

    def wait_for(self, pattern: str, times: int, deadline_s: float = 60.0) -> None:
        """Returns when the logs have so many places of `pattern`."""
        end = time.monotonic() + deadline_s
        while sum(len(re.findall(pattern, self.log(host))) for host in ADDRESSES) < times:
            assert time.monotonic() < end, self.logs()
            time.sleep(0.1)

    def codes(self, deadline_s: float = 120.0) -> dict[str, int]:
        """The exit code of every host."""
        end = time.monotonic() + deadline_s
        codes = {host: process.wait(max(1.0, end - time.monotonic())) for host, process in self.processes.items()}
        print(self.logs())
        return codes

    def logs(self) -> str:
        return "\n".join(self.log(host) for host in ADDRESSES)

    def failure(self, host: str) -> str:
        return (self.folder / host / "output" / "failure").read_text()

    @property
    def record(self) -> RunFolder:
        return RunFolder(self.folder / CHIEF / "output" / "data" / "tfhet")


@pytest.fixture
def start(tmp_path: Path, repository: Path, host_directory: Callable[..., Path]) -> Iterator[Callable[..., Job]]:
    """`start(*launcher_arguments)`: a job of two dnn hosts with two ranks each, and a data host."""
    begun: list[Job] = []

    def begin(*arguments: object) -> Job:
        launcher = repository / "scripts" / "launcher.py"
        begun.append(Job(tmp_path, launcher, host_directory, [str(word) for word in arguments]))
        return begun[-1]

    yield begin
    for job in begun:
        for process in job.processes.values():
            process.kill()
            process.wait()


@pytest.mark.horovod
@pytest.mark.slow
def test_ranks_train_together_without_mpi(start):
    job = start("--model", "small_cnn", "--chain", "digits", "--epochs", 1, "--batch_size", 32)
    assert job.codes() == dict.fromkeys(ADDRESSES, 0)
    assert "ranks 0, 1 of 4" in job.log(CHIEF) and "rank 3 of 4" in job.log("algo-1")
    weights = dict(re.findall(r"\[tfhet\] rank=(\d) .*weights=([0-9a-f]{64})", job.logs()))
    assert set(weights) == {"0", "1", "2", "3"}
    assert len(set(weights.values())) == 1
    summary = job.record.read_summary()
    assert summary.ranks == 4
    assert summary.exit_codes == {"rank-0": 0, "rank-1": 0, "rank-2": 0, "rank-3": 0, "algo-2": 0}
    assert [(epoch["once"], epoch["missing"], epoch["repeated"]) for epoch in summary.epochs] == [(1437, 0, 0)]
    (ranks,) = [event for event in job.record.events() if event["event"] == "job.ranks"]
    assert (ranks["by"], ranks["size"], ranks["per_host"]) == ("alone", 4, 2)


@pytest.mark.horovod
def test_failed_rank_ends_every_host(start, script):
    job = start("--train_script", script("ends"), "--how", "exit", "--rank", 3)
    assert job.codes() == dict.fromkeys(ADDRESSES, 3)
    for host in ADDRESSES:
        assert "algo-1, rank 3: exit code 3" in job.failure(host)
    assert job.record.read_summary().exit_code == 3


@pytest.mark.horovod
@pytest.mark.parametrize("host", [pytest.param(CHIEF, marks=pytest.mark.slow), "algo-1"])
def test_sigterm_on_one_host_stops_the_job(start, script, host):
    job = start("--train_script", script("ends"), "--how", "sleep")
    job.wait_for(r"training rank=\d", 4)
    job.processes[host].send_signal(signal.SIGTERM)
    assert job.codes() == dict.fromkeys(ADDRESSES, 143)
    assert "(SIGTERM)" in job.failure(host)


@pytest.mark.horovod
def test_killed_host_ends_the_job(start, script):
    job = start("--train_script", script("ends"), "--how", "sleep")
    job.wait_for(r"training rank=\d", 4)
    job.processes["algo-1"].kill()
    codes = job.codes()
    assert codes.pop("algo-1") == -signal.SIGKILL
    assert set(codes.values()) == {143}
