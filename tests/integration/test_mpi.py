"""The launcher as the SageMaker toolkit starts it on a GPU host: once per rank, under mpirun."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tfhet.cluster import cache_dir, environment, free_ports
from tfhet.record import RunFolder
from tfhet.source.digits import digits

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(120)]


def built_with_mpi() -> bool:
    """Whether Horovod's library needs libmpi. (`horovodrun --check-build` says so too, after 20 s.)"""
    (folder,) = importlib.util.find_spec("horovod").submodule_search_locations
    return any(b"libmpi" in library.read_bytes() for library in Path(folder, "tensorflow").glob("mpi_lib*.so"))


@pytest.fixture
def mpirun(tmp_path, repository, host_directory):
    """`mpirun(*launcher_arguments)`: two ranks of the launcher on a host whose files are at `tmp_path`.

    `start(command, env=...)`: who runs it, other than this process; further words are variables.
    """
    if not built_with_mpi():
        pytest.skip("Horovod was built without MPI")
    data = digits(cache_dir(environment()) / "digits" / "16-shards")
    host_directory(tmp_path, {"homogeneousCluster": ["algo-1"]}, "algo-1", data / "train")

    def run(*arguments: object, start: Callable[..., Any] = subprocess.run, **variables: str) -> Any:
        control, dispatcher, worker = free_ports(3)
        env = {
            **os.environ,
            "PYTHONPATH": str(repository),
            "SAGEMAKER_BASE_DIR": str(tmp_path),
            "TFHET_ADDRESSES": '{"algo-1": "127.0.0.1"}',
            "TFHET_PORTS": json.dumps({"control": control, "dispatcher": dispatcher, "workers": [worker]}),
            **variables,
        }
        command = ["mpirun", "-np", "2", "--allow-run-as-root", "--oversubscribe", "-bind-to", "none"]
        command += [sys.executable, str(repository / "scripts" / "launcher.py"), *map(str, arguments)]
        if start is not subprocess.run:
            return start(command, env=env)
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=100, check=False)

    return run


def test_mpirun_returns_the_code_of_a_rank(mpirun, tmp_path: Path, script):
    result = mpirun("--train_script", script("ends"), "--how", "exit", "--rank", 1)
    assert result.returncode == 3
    assert "algo-1, rank 1: exit code 3" in (tmp_path / "output" / "failure").read_text()


def test_ranks_stop_when_the_toolkit_dies(mpirun, tmp_path: Path, script):
    """The toolkit's `train` dies of SIGTERM, and mpirun with the ranks goes on: here a process in its place does."""
    log = tmp_path / "log"

    def as_train_does(command: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        code = f"import subprocess, sys; sys.exit(subprocess.run({command!r}).returncode)"
        with open(log, "wb") as file:
            return subprocess.Popen([sys.executable, "-c", code], env=env, stdout=file, stderr=subprocess.STDOUT)

    words = ["--train_script", script("ends"), "--how", "sleep"]
    train = mpirun(*words, start=as_train_does, TRAINING_JOB_NAME="job")
    try:
        end = time.monotonic() + 60
        while log.read_text().count("training rank=") < 2:
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        below = psutil.Process(train.pid).children(recursive=True)
        assert len(below) == 5  # mpirun, and a launcher and a script for each rank
        train.terminate()
        train.wait()
        _, alive = psutil.wait_procs(below, timeout=30)
        assert not alive
    finally:
        train.kill()
        train.wait()
    assert "exit code 143" in (tmp_path / "output" / "failure").read_text()
    assert RunFolder(tmp_path / "output" / "data" / "tfhet").read_summary().exit_code == 143
