"""The job without MPI: every host is started alike, once, and nobody says which ranks there are."""

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
    """One launcher on each of three hosts, laid out by hand below `folder`."""

    def __init__(self, folder: Path, launcher: Path, arguments: list[str]):
        self.folder = folder
        control, dispatcher, worker = free_ports(3)
        data = digits(cache_dir(environment()) / "digits" / "16-shards")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for group, hosts in GROUPS.items():
            for host in hosts:
                self._lay_out(host, group, data / "train")
                env = {
                    **os.environ,
                    "PYTHONPATH": str(launcher.parents[1]),
                    "SAGEMAKER_BASE_DIR": str(folder / host),
                    "TRAINING_JOB_NAME": "alone",
                    "TFHET_ADDRESSES": json.dumps(ADDRESSES),
                    "TFHET_PORTS": json.dumps({"control": control, "dispatcher": dispatcher, "workers": [worker]}),
                }
                command = [sys.executable, str(launcher), "--processes_per_host", "2", "--lease_s", "5", *arguments]
                with open(folder / f"{host}.log", "wb") as log:
                    self.processes[host] = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)

    def _lay_out(self, host: str, group: str, training: Path) -> None:
        config = self.folder / host / "input" / "config"
        config.mkdir(parents=True)
        (self.folder / host / "input" / "data").mkdir()
        (self.folder / host / "input" / "data" / "training").symlink_to(training)
        document = {
            "current_host": host,
            "current_group_name": group,
            "current_instance_type": "ml.c5.xlarge",
            "hosts": sorted(ADDRESSES),
            "instance_groups": [
                {"instance_group_name": name, "instance_type": "ml.c5.xlarge", "hosts": hosts}
                for name, hosts in GROUPS.items()
            ],
            "network_interface_name": "lo",
        }
        (config / "resourceconfig.json").write_text(json.dumps(document))

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
def start(tmp_path: Path, repository: Path) -> Iterator[Callable[..., Job]]:
    """`start(*launcher_arguments)`: a job of two dnn hosts with two ranks each, and a data host."""
    begun: list[Job] = []

    def begin(*arguments: object) -> Job:
        begun.append(Job(tmp_path, repository / "scripts" / "launcher.py", [str(word) for word in arguments]))
        return begun[-1]

    yield begin
    for job in begun:
        for process in job.processes.values():
            process.kill()
            process.wait()


@pytest.mark.horovod
@pytest.mark.slow
def test_ranks_on_two_hosts_train_together_without_mpi(start):
    job = start("--model", "small_cnn", "--chain", "digits", "--epochs", 1, "--batch_size", 32)
    assert job.codes() == dict.fromkeys(ADDRESSES, 0)
    assert f"[{CHIEF}] starts the launchers of ranks 0, 1 of 4" in job.log(CHIEF)
    assert "[algo-1/3] heterogeneous job: rank 3 of 4 (without MPI)" in job.log("algo-1")
    assert "starts the launchers" not in job.log("algo-2")
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
def test_a_rank_that_fails_ends_every_host_with_its_code(start, script):
    job = start("--train_script", script("ends"), "--how", "exit", "--rank", 3)
    assert job.codes() == dict.fromkeys(ADDRESSES, 3)
    for host in ADDRESSES:
        assert "ends.py ended on algo-1, rank 3: exit code 3" in job.failure(host)
    assert job.record.read_summary().exit_code == 3


@pytest.mark.horovod
@pytest.mark.parametrize("host", [CHIEF, "algo-1"])
def test_a_host_that_is_told_to_stop_stops_the_job(start, script, host):
    job = start("--train_script", script("ends"), "--how", "sleep")
    job.wait_for(r"training rank=\d", 4)
    job.processes[host].send_signal(signal.SIGTERM)
    assert job.codes() == dict.fromkeys(ADDRESSES, 143)
    assert "was asked to stop (SIGTERM)" in job.failure(host)


@pytest.mark.horovod
def test_a_host_whose_first_process_is_killed_leaves_nothing_and_ends_the_job(start, script):
    job = start("--train_script", script("ends"), "--how", "sleep")
    job.wait_for(r"training rank=\d", 4)
    job.processes["algo-1"].kill()
    codes = job.codes()
    assert codes.pop("algo-1") == -signal.SIGKILL
    assert set(codes.values()) == {143}
