"""Launchers that mpirun started: the processes above mpirun, and the file for which SageMaker's toolkit waits."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import psutil
import pytest
from event_loop import in_event_loop

from tfhet.cluster import Rank
from tfhet.launch import LaunchSettings
from tfhet.launch.assignment import Assignment
from tfhet.strategies.mpi import MPI, above_mpirun, first_gone, watched

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """`table({pid: (name, parent)})`: the process table, in which process N began at tick 100 + N."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    (tmp_path / "stat").write_text("btime 1000000000\n")

    def build(processes: dict[int, tuple[str, int]]) -> None:
        for pid, (name, parent) in {1: ("tfhet-init", 0), **processes}.items():
            (tmp_path / str(pid)).mkdir()
            fields = ["S", str(parent), *["0"] * 17, str(100 + pid), *["0"] * 30]
            (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")

    return build


@pytest.mark.parametrize(
    ("processes", "names"),
    [
        ({7: ("train", 1), 9: ("sh", 7), 12: ("mpirun", 9)}, ["mpirun", "sh", "train"]),
        ({7: ("a) (b 1 2", 1), 12: ("orterun", 7)}, ["orterun", "a) (b 1 2"]),
        ({7: ("train", 1)}, []),
        ({7: ("sshd", 1), 12: ("orted", 7)}, []),
        ({7: ("sshd", 1), 9: ("bash", 7), 12: ("mpirun", 9)}, []),
        ({12: ("orted", 1)}, []),
        ({12: ("mpirun", 1)}, []),
        ({9: ("sh", 1), 12: ("mpirun", 9)}, []),
        ({9: ("train", 1), 12: ("sh", 9)}, []),
        ({}, []),
    ],
    ids=["toolkit", "any name", "no mpirun", "other host", "login", "daemon", "init's", "shell", "script", "gone"],
)
def test_processes_above_mpirun(table, processes, names):
    table(processes)
    assert list(above_mpirun(12 if 12 in processes else 7).values()) == names


@pytest.mark.parametrize(
    ("env", "rank"),
    [
        ({}, Rank(0, 2, 0, 2, "mpi")),
        ({"TRAINING_JOB_NAME": "job"}, None),
        ({"TRAINING_JOB_NAME": "job"}, Rank(1, 2, 1, 2, "mpi")),
    ],
    ids=["no job", "data host", "other local rank"],
)
def test_other_launchers_watch_nothing(env, rank):
    assert watched(env, rank) == {}


@in_event_loop
async def test_first_process_that_ends_is_returned():
    child = subprocess.Popen(["sleep", "60"])
    line = psutil.Process(), psutil.Process(child.pid)
    try:
        watching = asyncio.create_task(first_gone(line, 0.01))
        await asyncio.sleep(0.05)
        assert not watching.done()
        child.kill()
        assert await watching == line[1]
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    ("host", "rank", "job", "source", "is_written"),
    [
        ("t2", 2, "job", "OMPI_COMM_WORLD", True),
        ("t2", 2, "job", "HOROVOD", False),
        ("t2", 2, "", "OMPI_COMM_WORLD", False),
        ("t2", 3, "job", "OMPI_COMM_WORLD", False),
        ("t1", 0, "job", "OMPI_COMM_WORLD", False),
        ("d1", None, "job", "OMPI_COMM_WORLD", False),
    ],
)
def test_toolkit_is_released_once_per_host(environment_of, tmp_path: Path, host, rank, job, source, is_written):
    mpi = pytest.importorskip("sagemaker_training.mpi")
    env = environment_of(host, rank, dnn=("t1", "t2"), ranks=2) | {"TRAINING_JOB_NAME": job}
    env = {name.replace("HOROVOD_", f"{source}_"): value for name, value in env.items()}
    MPI.release(Assignment.of(env, LaunchSettings()).place, tmp_path)
    written = [f"/tmp/{path.name}" for path in tmp_path.glob("done*")]
    assert written == [f"{mpi.MPI_FINISHED_STATUS_FILE}.t1"] * is_written
