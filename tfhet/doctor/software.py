"""The section `software`: Python, and the packages that are installed, TensorFlow and Horovod loaded as a job would."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfhet.doctor.rule import Check, Status
from tfhet.versions import versions

SECTION = "software"
LOAD_LIMIT_S = 120.0
"""Limit for importing TensorFlow, which is slow from a cold disk."""
_TENSORFLOW = """
import json, sys
said = {}
try:
    import tensorflow as tf
    said["tensorflow"] = tf.__version__
    said["gpus"] = len(tf.config.list_physical_devices("GPU"))
except Exception as error:
    said["tensorflow_error"] = f"{type(error).__name__}: {error}"
print(json.dumps(said), flush=True)  # what comes now may end Python
try:
    import horovod.tensorflow as hvd
    said["horovod"] = {name: bool(getattr(hvd, f"{name}_built")()) for name in ("gloo", "mpi", "nccl")}
except Exception as error:
    said["horovod_error"] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""


@dataclass(frozen=True)
class Loaded:
    """Findings of a process of its own that loaded TensorFlow and Horovod."""

    tensorflow_error: str = ""
    horovod_error: str = ""
    gpus: int = 0
    """Number of GPUs that TensorFlow can use."""
    horovod: frozenset[str] = frozenset()
    """Parts that Horovod was built with: gloo, mpi, nccl."""


def load(env: Mapping[str, str]) -> Loaded:
    """Loads both in a process of its own, since a crash is a finding too. Takes some seconds."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TENSORFLOW],
            env={**env, "TF_CPP_MIN_LOG_LEVEL": "3"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LOAD_LIMIT_S,
            stdin=subprocess.DEVNULL,
        )
        output, crash = done.stdout, ""
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
            crash = f"loading it ends Python with code {done.returncode}: {last}"
    except subprocess.TimeoutExpired as error:
        output, crash = (error.stdout or b"").decode(errors="replace"), f"not loaded after {LOAD_LIMIT_S:g} s"
    except (OSError, subprocess.SubprocessError) as error:
        output, crash = "", str(error)
    try:
        said: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return Loaded(crash, crash)
    said.setdefault("horovod_error", crash)
    return Loaded(
        said.get("tensorflow_error", ""),
        said.get("horovod_error", ""),
        said.get("gpus", 0),
        frozenset(name for name, is_built in said.get("horovod", {}).items() if is_built),
    )


def checks(loaded: Loaded, gpus: int, installed: Mapping[str, str] | None = None) -> Iterator[Check]:
    """`gpus`: number in the machine, whether TensorFlow sees them or not. `installed`: version by distribution."""
    there = versions((*_PACKAGES, "tensorflow", "keras", "horovod")) if installed is None else installed
    yield Check(SECTION, "Python", Status.OK, platform.python_version(), "everything needs it", is_needed=True)
    yield _tensorflow(there, loaded)
    if "horovod" in there:
        yield from _horovod(there["horovod"], loaded, gpus)
    for name, (needed_for, what_to_do) in _PACKAGES.items():
        if name in there:
            yield Check(SECTION, name, Status.OK, there[name], needed_for)
        else:
            yield Check(SECTION, name, Status.MISSING, "not installed", needed_for, what_to_do)
    if "horovod" not in there:
        yield Check(SECTION, "horovod", Status.MISSING, "not installed", "several ranks", "pip install tfhet[horovod]")


_PACKAGES = {
    "sagemaker-training": ("simulated hosts that run SageMaker's toolkit", "pip install tfhet[sagemaker]"),
    "mpi4py": ("simulated hosts that run SageMaker's toolkit: it starts ranks with it", "pip install mpi4py"),
    "tensorflow-addons": ("the backend addons of gaussian_blur, and comparisons with it", "pip install tfhet[addons]"),
    "matplotlib": ("plots", "pip install tfhet[demo]"),
    "scikit-learn": ("the digits, which are the demonstration data", "pip install tfhet[demo]"),
}
_HOROVOD = (
    ("gloo", "Horovod with Gloo", "several ranks without MPI", "HOROVOD_WITH_GLOO=1"),
    ("mpi", "Horovod with MPI", "ranks that mpirun starts, as SageMaker's toolkit does", "HOROVOD_WITH_MPI=1"),
    ("nccl", "Horovod with NCCL", "ranks on GPUs", "HOROVOD_GPU_OPERATIONS=NCCL"),
)


def _tensorflow(installed: Mapping[str, str], loaded: Loaded) -> Check:
    found = f"{installed.get('tensorflow', 'not installed')}, Keras {installed.get('keras', 'not installed')}"
    status, what = Status.OK, ""
    if loaded.tensorflow_error:
        status, found, what = Status.MISSING, f"{found}: {loaded.tensorflow_error}", "install it again"
        if "tensorflow" not in installed:
            found, what = "not installed", "pip install tensorflow==2.15.1"
    return Check(SECTION, "tensorflow", status, found, "everything that reads data needs it", what, is_needed=True)


def _horovod(version: str, loaded: Loaded, gpus: int) -> Iterator[Check]:
    again = "build it again (scripts/setup, or pip install --no-binary :all: --force-reinstall horovod==0.28.1)"
    if loaded.horovod_error:
        found = f"{version}: {loaded.horovod_error}"
        yield Check(SECTION, "horovod", Status.MISSING, found, "several ranks", again)
        return
    yield Check(SECTION, "horovod", Status.OK, version, "several ranks")
    for name, shown, needed_for, variables in _HOROVOD:
        if name in loaded.horovod:
            yield Check(SECTION, shown, Status.OK, "built in", needed_for)
        elif name != "nccl" or gpus:
            yield Check(SECTION, shown, Status.MISSING, "not built in", needed_for, f"{again} with {variables}")
