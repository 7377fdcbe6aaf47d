"""Python and packages: whether TensorFlow, Horovod and PyTorch load, and versions that conflict."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from packaging.requirements import Requirement

from tfhet.doctor.rule import Check, RuleAnswer, Status, Subject, limited, ok, wrong
from tfhet.versions import versions

LOAD_LIMIT_S = 120.0
"""Deadline of importing TensorFlow or PyTorch, which is slow from a cold disk."""
_LOAD = """
import json, sys
found = {}
try:
    import tensorflow as tf
    found["gpus"] = len(tf.config.list_physical_devices("GPU"))
except Exception as error:
    found["tensorflow_error"] = f"{type(error).__name__}: {error}"
print(json.dumps(found), flush=True)  # what comes now may end Python
try:
    import horovod.tensorflow as hvd
    found["horovod"] = [name for name in ("gloo", "mpi", "nccl") if getattr(hvd, f"{name}_built")()]
except Exception as error:
    found["horovod_error"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""
_LOAD_TORCH = "import torch; print(torch.cuda.device_count())"
_PACKAGES = {
    "sagemaker-training": ("simulated hosts that run SageMaker's toolkit", "pip install tfhet[sagemaker]"),
    "mpi4py": ("simulated hosts that run SageMaker's toolkit: it starts ranks with it", "pip install mpi4py"),
    "matplotlib": ("plots", "pip install tfhet[demo]"),
    "scikit-learn": ("the digits, which are the demonstration data", "pip install tfhet[demo]"),
}
_HOROVOD = (
    ("gloo", "Horovod with Gloo", "several ranks without MPI", "HOROVOD_WITH_GLOO=1"),
    ("mpi", "Horovod with MPI", "ranks that mpirun starts, as SageMaker's toolkit does", "HOROVOD_WITH_MPI=1"),
    ("nccl", "Horovod with NCCL", "ranks on GPUs", "HOROVOD_GPU_OPERATIONS=NCCL"),
)
_TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly")
DISTRIBUTIONS = (*_TENSORFLOWS, "keras", "horovod", "tensorflow-addons", "numpy", "protobuf", "pyarrow", "ray")
"""Packages in rules about versions."""


@dataclass(frozen=True)
class Loaded:
    """Results of loading TensorFlow, Horovod and PyTorch in child processes."""

    tensorflow_error: str = ""
    horovod_error: str = ""
    gpus: int = 0
    torch_gpus: int | None = None
    """Number that PyTorch sees; None if it does not load."""
    horovod: frozenset[str] = frozenset()
    """Built parts: gloo, mpi, nccl."""

    @property
    def gpus_seen(self) -> dict[str, int]:
        tensorflow = {} if self.tensorflow_error else {"TensorFlow": self.gpus}
        return tensorflow if self.torch_gpus is None else {**tensorflow, "PyTorch": self.torch_gpus}


def load(env: Mapping[str, str]) -> Loaded:
    """Loads the packages in child processes, since a crash is a finding too."""
    output, crash = _run(_LOAD, env)
    count, _ = _run(_LOAD_TORCH, env) if find_spec("torch") else ("", "")
    words = count.split()
    torch_gpus = int(words[-1]) if words and words[-1].isdecimal() else None
    try:
        found: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return Loaded(crash, crash, torch_gpus=torch_gpus)
    horovod = frozenset(found.pop("horovod", ()))
    return Loaded(**{"horovod_error": crash, **found}, torch_gpus=torch_gpus, horovod=horovod)


def _run(code: str, env: Mapping[str, str]) -> tuple[str, str]:
    """Returns output and failure of a child process."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**env, "TF_CPP_MIN_LOG_LEVEL": "3"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LOAD_LIMIT_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(errors="replace"), f"not loaded after {LOAD_LIMIT_S:g} s"
    last = (done.stderr.strip().splitlines() or ["without a message"])[-1]
    return done.stdout, f"loading it ends Python with code {done.returncode}: {last}" if done.returncode else ""


def checks(loaded: Loaded, gpus: int, installed: Mapping[str, str] | None = None) -> Iterator[Check]:
    """Yields the checks of Python and each package. gpus: number in the machine. installed: versions; None: look."""
    there = versions((*_PACKAGES, "tensorflow", "keras", "horovod", "torch")) if installed is None else installed
    yield _check("Python", platform.python_version(), "everything needs it", is_needed=True)
    found, what = f"{there.get('tensorflow', 'not installed')}, Keras {there.get('keras', 'not installed')}", ""
    if loaded.tensorflow_error and "tensorflow" in there:
        found, what = f"{found}: {loaded.tensorflow_error}", "install it again"
    elif loaded.tensorflow_error:
        found, what = "not installed", "pip install 'tfhet[tensorflow]'"
    needed_for = "pipelines, tf.data and the built-in trainer"
    yield _check("tensorflow", found, needed_for, what, is_needed="torch" not in there)
    if "torch" in there:
        what = "install it again" if loaded.torch_gpus is None else ""
        yield _check("torch", f"{there['torch']}{': it does not load' if what else ''}", "scripts for PyTorch", what)
    if "horovod" in there:
        yield from _horovod(there["horovod"], loaded, gpus)
    is_for_torch = "torch" in there and "tensorflow" not in there
    for name, (needed_for, what) in _PACKAGES.items():
        if is_for_torch and name == "tensorflow-addons":
            continue
        yield _check(name, there.get(name, "not installed"), needed_for, "" if name in there else what)
    if "horovod" not in there and not is_for_torch:
        what = "pip install 'tfhet[horovod]'; for TensorFlow 2.16 and later, scripts/setup builds it with a patch"
        yield _check("horovod", "not installed", "several ranks", what)


def _horovod(version: str, loaded: Loaded, gpus: int) -> Iterator[Check]:
    again = "build it again (scripts/setup does so, with a patch for TensorFlow 2.16 and later)"
    if loaded.horovod_error:
        yield _check("horovod", f"{version}: {loaded.horovod_error}", "several ranks", again)
        return
    yield _check("horovod", version, "several ranks")
    for part, name, needed_for, variables in _HOROVOD:
        if part in loaded.horovod:
            yield _check(name, "built in", needed_for)
        elif part != "nccl" or gpus:
            yield _check(name, "not built in", needed_for, f"set {variables} and {again}")


def _check(name: str, found: str, needed_for: str, what_to_do: str = "", *, is_needed: bool = False) -> Check:
    status = Status.MISSING if what_to_do else Status.OK
    return Check("software", name, status, found, needed_for, what_to_do, is_needed)


Versions = Mapping[str, str]
VERSIONS: Subject[Versions] = Subject("versions")


def _conflicts(name: str, why: str, issue: str, *conflicts: tuple[str, Callable[..., RuleAnswer], str]) -> None:
    """Adds a rule about packages: the requirements of each conflict, the answer if they are met, and what to do ({0}:
    the minor version of the first package)."""
    wanted = [[Requirement(text) for text in conflict[0].split()] for conflict in conflicts]
    packages = [each.name for each in wanted[0]]

    def look(versions: Versions) -> RuleAnswer:
        found = ", ".join(f"{package} {versions[package]}" for package in packages)
        for (_, answer, what), requirements in zip(conflicts, wanted, strict=True):
            if all(each.specifier.contains(versions[each.name], prereleases=True) for each in requirements):
                return answer(found, what.format(".".join(versions[packages[0]].split(".")[:2])))
        return ok(found)

    VERSIONS.rule(name, why, issue, when=lambda versions: all(package in versions for package in packages))(look)


_conflicts(
    *("TensorFlow and Keras", "tf.keras is the installed Keras", "tensorflow/tensorflow#62825"),
    ("tensorflow<2.16 keras>=3", limited, "pip install 'keras=={0}.*'"),
    ("tensorflow>=2.16 keras<3", limited, "pip install 'keras>=3'"),
)
_conflicts(
    *("TensorFlow and Addons", "the backend addons needs it; it knows Keras 2 only", "tensorflow/addons#2870"),
    ("tensorflow>=2.16 tensorflow-addons", limited, "pip uninstall tensorflow-addons, and omit backend='addons'"),
)
_conflicts(
    *("TensorFlow and NumPy", "TensorFlow before 2.18 was built for NumPy 1", "tensorflow/tensorflow#102743"),
    ("tensorflow<2.18 numpy>=2", wrong, "pip install 'numpy<2'"),
)
_conflicts(
    *("TensorFlow and protobuf", "graphs travel as protobuf messages", ""),
    ("tensorflow<2.18 protobuf>=5", limited, "pip install 'protobuf>=4.25,<5'"),
    ("tensorflow protobuf<4", limited, "pip install 'protobuf>=4.25,<5': version 4 is faster"),
)
_conflicts(
    *("PyArrow and NumPy", "Ray Data reads by PyArrow, which asks for NumPy 2 only when it is imported", ""),
    ("pyarrow>=26 numpy<2", wrong, "pip install 'pyarrow<26'"),
)
_conflicts(
    *("Ray", "the data plane ray uses private names of Ray 2.60", ""),
    ("ray!=2.60.*", limited, "pip install 'tfhet[ray]'"),
)


@VERSIONS.rule("one TensorFlow", "several hold the same files: which one runs is a matter of chance")
def one_tensorflow(versions: Versions) -> RuleAnswer | None:
    there = [name for name in _TENSORFLOWS if name in versions]
    what = f"pip uninstall {' '.join(there)}, then install one of them"
    return limited(", ".join(there), what, when=len(there) > 1) if there else None
