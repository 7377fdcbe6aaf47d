from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tfhet.cluster import Rank
from tfhet.strategies.mpi import above_mpirun, first_gone, watched

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """`table({pid: (name, parent)})`: the process table, in which process N began at tick 100 + N."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    (tmp_path / "stat").write_text("btime 1000000000\n")

    def build(processes: dict[int, tuple[str, int]]) -> None:
        for pid, (name, parent) in processes.items():
            (tmp_path / str(pid)).mkdir(exist_ok=True)
            fields = ["S", str(parent), *["0"] * 17, str(100 + pid), *["0"] * 30]
            (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")

    return build


INIT = {1: ("tfhet-init", 0)}


def test_the_line_goes_from_mpirun_to_the_first_that_is_none_of_it(table):
    table({**INIT, 7: ("train", 1), 9: ("sh", 7), 12: ("mpirun", 9)})
    found = above_mpirun(12)
    assert [(process.pid, name) for process, name in found.items()] == [(12, "mpirun"), (9, "sh"), (7, "train")]


def test_a_name_may_hold_anything(table):
    table({**INIT, 7: ("a) (b 1 2", 1), 12: ("orterun", 7)})
    assert list(above_mpirun(12).values()) == ["orterun", "a) (b 1 2"]


@pytest.mark.parametrize(
    "processes",
    [
        {7: ("train", 1)},
        {7: ("sshd", 1), 12: ("orted", 7)},
        {7: ("sshd", 1), 9: ("bash", 7), 12: ("mpirun", 9)},
        {12: ("orted", 1)},
        {12: ("mpirun", 1)},
        {9: ("sh", 1), 12: ("mpirun", 9)},
        {9: ("train", 1), 12: ("sh", 9)},
        {},
    ],
    ids=["not under mpirun", "another host", "a login", "a daemon", "init's", "a shell of init's", "a script", "gone"],
)
def test_where_nobody_here_started_mpirun_nobody_is_watched(table, processes):
    table({**INIT, **processes})
    assert above_mpirun(12 if 12 in processes else 7) == {}


@pytest.mark.parametrize(
    ("env", "rank"),
    [
        ({}, Rank(0, 2, 0, 2, "mpi")),
        ({"TRAINING_JOB_NAME": "job"}, None),
        ({"TRAINING_JOB_NAME": "job"}, Rank(1, 2, 1, 2, "mpi")),
    ],
    ids=["no job", "a data host", "another local rank"],
)
def test_only_what_leads_a_host_of_a_job_under_mpirun_watches(env, rank):
    assert watched(env, rank) == {}


def test_the_first_that_is_gone_is_named():
    child = subprocess.Popen(["sleep", "60"])
    line = psutil.Process(), psutil.Process(child.pid)

    async def scenario() -> psutil.Process:
        watching = asyncio.create_task(first_gone(line, 0.01))
        await asyncio.sleep(0.1)
        assert not watching.done()
        child.kill()
        return await watching

    try:
        assert asyncio.run(scenario()) == line[1]
    finally:
        child.kill()
        child.wait()


NAMED = "import ctypes, subprocess, sys; ctypes.CDLL(None).prctl(15, {name!r}, 0, 0, 0); "


def test_a_launcher_under_mpirun_stops_when_who_started_mpirun_dies(environment_of, tmp_path):
    """`train` and `mpirun` are stand-ins of these names; what mpirun hands on by itself is not part of it."""
    script = tmp_path / "train.py"
    script.write_text("import time; print('begun', flush=True); time.sleep(60)")
    launcher = [sys.executable, "-m", "tfhet.launch", "--train_script", str(script), "--lease_s", "5"]
    run = "sys.exit(subprocess.run({command!r}).returncode)"
    mpirun = [sys.executable, "-c", NAMED.format(name=b"mpirun") + run.format(command=launcher)]
    train = [sys.executable, "-c", NAMED.format(name=b"train") + run.format(command=mpirun)]
    ranks = {"RANK": "0", "SIZE": "1", "LOCAL_RANK": "0", "LOCAL_SIZE": "1"}
    mpi = {f"OMPI_COMM_WORLD_{name}": value for name, value in ranks.items()}
    log = tmp_path / "log"
    with open(log, "wb") as file:
        process = subprocess.Popen(
            train, env={**os.environ, **environment_of("t1", data=()), **mpi}, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        wait_until(lambda: "begun" in log.read_text())
        below = psutil.Process(process.pid).children(recursive=True)
        assert len(below) == 3  # mpirun, launcher, script
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM
        _, alive = psutil.wait_procs(below, timeout=20)
        assert not alive
    finally:
        process.kill()
        process.wait()
    failure = (tmp_path / "t1" / "output" / "failure").read_text()
    assert f"asked to stop (train, process {process.pid}, by which it was started, is gone)" in failure
    assert "(exit code 143, seen by t1/0)" in failure
    summary = json.loads((tmp_path / "t1" / "output" / "data" / "tfhet" / "summary.json").read_text())
    assert summary["exit_code"] == 143


def wait_until(condition, deadline_s: float = 30.0) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
