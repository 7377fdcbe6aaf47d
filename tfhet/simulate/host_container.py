"""The container of a namespace host: its mounts, files, command and environment."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tfhet.cluster import HostPaths
from tfhet.container import OVERLAY, READ_ONLY, SHARED, Container, Mount
from tfhet.control import SECRET_VARIABLE
from tfhet.errors import UsageError
from tfhet.simulate.fault import CONTROL, PRELOAD, library
from tfhet.simulate.host import HostBackend, SimulatedHost
from tfhet.simulate.submission import Submission, hyperparameters
from tfhet.submit import MPI_OPTIONS
from tfhet.versions import versions

BASE = Path("/opt/ml")
_PACKAGE = Path(__file__).resolve().parents[2]
_PASSED_ON = ("TF_", "TFHET_", "HOROVOD_", "NCCL_", "OMP_", "OMPI_")
_PASSED_ON_NAMES = ("PYTHONPATH", "XDG_CACHE_HOME", "LANG")
_HIDDEN = ("/tmp/", "/run/", "/dev/", "/mnt/", "/media/")
"""Directories of the machine that a container sees only if they are mounted."""


def container(
    backend: HostBackend, host: SimulatedHost, scratch: Path, secret: str, keys: Mapping[str, str]
) -> Container:
    """Writes the configuration files of a host and returns its container. scratch: an empty directory for the
    container's changes. secret: the job's secret. keys: see `ssh_files`."""
    job = backend.job
    parameters = _parameters(backend)
    config, modes, places = backend.lay_out(host, parameters)
    mounts = [Mount(str(host.paths.base), str(BASE), SHARED)]
    mounts += [Mount(path, path) for path in carried(backend.env, job.settings.train_script)]
    for place, directory in places.items():
        kind = OVERLAY
        if place == host.paths.checkpoints:
            kind = SHARED
        elif place != host.paths.code and job.mode(place.name) == "FastFile":
            kind = READ_ONLY
        mounts.append(Mount(str(directory), str(BASE / place.relative_to(host.paths.base)), kind))
    files: dict[str, str] = {}
    if faults := backend.preloaded.get(host.name):
        faults.open(reads=[BASE / "input" / "data"], writes=[BASE, Path("/tmp")])
        mounts.append(Mount(str(faults.path), str(CONTROL), SHARED))
        mounts.append(Mount(str(library(backend.env)), f"{CONTROL}.so", READ_ONLY))
        files[str(PRELOAD)] = f"{CONTROL}.so\n"
    environment = environment_of(backend, host, secret)
    command = [sys.executable, "-m", "tfhet.launch.init"]
    if job.start == "toolkit":
        command += [str(Path(sys.executable).parent / "train")]
        if Path(job.command[0]).is_absolute():
            files[str(BASE / "code" / _program(job))] = job.program.read_text(encoding="utf-8")
    else:
        inside = replace(host, paths=HostPaths(BASE))
        environment |= inside.variables(config, modes, parameters, job.job, job.command)
        command += [sys.executable, *job.command, "--processes_per_host", str(host.ranks)]
    names = "\n".join(["127.0.0.1 localhost", *(f"{one.address} {one.name}" for one in backend.hosts), ""])
    return Container(
        name=host.name,
        scratch=str(scratch),
        command=command,
        environment=environment,
        directory=str(BASE / "code"),
        mounts=mounts,
        files={"/etc/hosts": names, "/etc/hostname": host.name + "\n", **keys, **files},
    )


def _parameters(backend: HostBackend) -> dict[str, str]:
    """Hyperparameters that the SDK writes for a job with MPI on the dnn group; the job's own win."""
    job = backend.job
    if job.parameters is not None and "sagemaker_program" in job.parameters:
        return dict(job.parameters)
    ranks = max(one.ranks for one in backend.hosts if one.group == job.dnn_group)
    return {
        **hyperparameters([_program(job), *(job.command[1:] if job.parameters is None else ())], job.job),
        "sagemaker_container_log_level": "20",
        "sagemaker_mpi_enabled": "true",
        "sagemaker_mpi_num_of_processes_per_host": str(ranks),
        "sagemaker_mpi_custom_mpi_options": json.dumps(MPI_OPTIONS),
        "sagemaker_distribution_instance_groups": json.dumps([job.dnn_group]),
        **(job.parameters or {}),
    }


def _program(job: Submission) -> str:
    """The program's path below the code directory; the toolkit refuses absolute ones, so they are copied there."""
    program = Path(job.command[0])
    return f"tfhet-{program.name}" if program.is_absolute() else job.command[0]


def environment_of(backend: HostBackend, host: SimulatedHost, secret: str) -> dict[str, str]:
    """Variables that SageMaker sets in a container, and variables of the simulator's user for the job."""
    job = backend.job
    names = [name for name in backend.env if name.startswith(_PASSED_ON) or name in _PASSED_ON_NAMES]
    passed = {name: backend.env[name] for name in names}
    return {
        "LANG": "C.UTF-8",
        # Hosts share CPUs: a rank that polls for others would use theirs (4 ranks on 2 CPUs: steps take 2.5 times as
        # long).
        "OMPI_MCA_mpi_yield_when_idle": "1",
        **passed,
        "PATH": f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        # An installed tfhet is found anyway, also a version from the hosts' requirements.txt.
        **({} if versions(("tfhet",)) else {"PYTHONPATH": with_package(passed.get("PYTHONPATH", ""))}),
        "PYTHONUNBUFFERED": "1",
        "TRAINING_JOB_NAME": job.job,
        "SAGEMAKER_JOB_NAME": job.job,
        "CURRENT_HOST": host.name,
        SECRET_VARIABLE: secret,
        **job.environment,
    }


def carried(env: Mapping[str, str], train_script: str = "") -> list[str]:
    """Directories that the job needs and that a container sees only if they are mounted."""
    wanted = {sys.prefix, sys.base_prefix, str(_PACKAGE), env.get("XDG_CACHE_HOME", ""), str(Path(train_script).parent)}
    wanted |= set(env.get("PYTHONPATH", "").split(":"))
    hidden = sorted(path for path in wanted if path.startswith(_HIDDEN) and Path(path).is_dir())
    return [path for path in hidden if not any(path.startswith(other + "/") for other in hidden)]


def ssh_files(scratch: Path) -> dict[str, str]:
    """Files, by path, with SSH keys by which root of any host can log in to any other host of this run."""
    for name in ("root", "host"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tfhet", "-f", str(scratch / name)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode:
            raise UsageError(f"{' '.join(words)}: {done.stderr.strip()}")
    options = ("StrictHostKeyChecking no", "UserKnownHostsFile /dev/null", "LogLevel ERROR")
    return {
        "/root/.ssh/id_ed25519": (scratch / "root").read_text(encoding="ascii"),
        "/root/.ssh/authorized_keys": (scratch / "root.pub").read_text(encoding="ascii"),
        "/root/.ssh/config": "\n  ".join(["Host *", *options]) + "\n",
        "/etc/ssh/ssh_host_ed25519_key": (scratch / "host").read_text(encoding="ascii"),
        "/etc/ssh/ssh_host_ed25519_key.pub": (scratch / "host.pub").read_text(encoding="ascii"),
    }


def with_package(path: str) -> str:
    return ":".join(filter(None, (str(_PACKAGE), path)))
