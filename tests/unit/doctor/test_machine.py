"""doctor/host.py and software.py: this machine and its packages."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tfhet.doctor import Check, Status, software
from tfhet.doctor.host import MACHINE, _busy, look
from tfhet.doctor.software import Loaded, checks, load
from tfhet.units import GIB

pytestmark = pytest.mark.timeout(120)
ALL = {"tensorflow": "2.15.1", "keras": "2.15.0", "horovod": "0.28.1", "mpi4py": "4.1.2", "sagemaker-training": "5.1.4"}


def test_every_rule_judges_this_machine(tmp_path):
    here = look({"https_proxy": "http://proxy:1", "HTTP_PROXY": "ignored"}, {}, tmp_path / "not" / "there")
    assert here.cores >= here.cores_usable >= 1 and here.numa_nodes >= 1
    assert here.directory == str(tmp_path) and here.proxies == ("https_proxy",)
    assert here.memory_bytes > here.memory_free_bytes > 0 and here.open_files > 0
    assert {check.name for check in MACHINE.checks(here)} == {rule.name for rule in MACHINE.rules}


def test_machine_without_proc_has_no_quota(tmp_path):
    (tmp_path / "proc").mkdir()
    here = look({}, {}, tmp_path, root=tmp_path)
    assert (here.cpu_quota, here.shm_bytes) == (None, None)
    assert here.memory_bytes > GIB // 4


def test_busy_port_is_named():
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        number = taken.getsockname()[1]
        (message,) = _busy([number])
    assert str(number) in message


def found(loaded: Loaded, gpus: int = 0, **installed: str | None) -> dict[str, Check]:
    there = {**ALL, **{name.replace("_", "-"): version for name, version in installed.items()}}
    return {
        check.name: check
        for check in checks(loaded, gpus, {name: version for name, version in there.items() if version})
    }


@pytest.mark.parametrize(
    ("loaded", "gpus", "installed", "name", "status", "named"),
    [
        (Loaded(), 0, {}, "Python", Status.OK, "3."),
        (Loaded(), 0, {}, "tensorflow", Status.OK, "2.15.1, Keras 2.15.0"),
        (Loaded(horovod=frozenset({"gloo"})), 0, {}, "Horovod with Gloo", Status.OK, ""),
        (Loaded(horovod=frozenset({"gloo"})), 0, {}, "Horovod with MPI", Status.MISSING, "HOROVOD_WITH_MPI=1"),
        (Loaded(horovod=frozenset({"gloo"})), 4, {}, "Horovod with NCCL", Status.MISSING, "NCCL"),
        (Loaded(horovod_error="ImportError: libmpi.so.40"), 0, {}, "horovod", Status.MISSING, "libmpi.so.40"),
        (Loaded(), 0, {"sagemaker_training": None}, "sagemaker-training", Status.MISSING, "tfhet[sagemaker]"),
        (Loaded(), 0, {"horovod": None}, "horovod", Status.MISSING, "tfhet[horovod]"),
        (Loaded("ImportError: no libcudart"), 0, {}, "tensorflow", Status.MISSING, "no libcudart"),
        (Loaded("ModuleNotFoundError"), 0, {"tensorflow": None}, "tensorflow", Status.MISSING, "pip install"),
        (Loaded(), 0, {"torch": "2.13.0"}, "torch", Status.MISSING, "2.13.0"),
        (Loaded(torch_gpus=1), 0, {"torch": "2.13.0"}, "torch", Status.OK, "2.13.0"),
    ],
)
def test_packages_are_checked(loaded, gpus, installed, name, status, named):
    made = found(loaded, gpus, **installed)
    check = made[name]
    assert check.status is status and named in f"{check.found} {check.what_to_do}"
    assert bool(check.what_to_do) == (status is not Status.OK)
    assert [one.name for one in made.values() if one.is_fatal] == (["tensorflow"] if loaded.tensorflow_error else [])
    assert ("Horovod with NCCL" in made) == (gpus > 0)


def test_pytorch_works_without_tensorflow():
    gone = Loaded(tensorflow_error="ModuleNotFoundError", torch_gpus=1)
    assert not any(check.is_fatal for check in found(gone, tensorflow=None, torch="2.13.0").values())
    assert gone.gpus_seen == {"PyTorch": 1}


@pytest.mark.parametrize(
    ("module", "error"),
    [
        ("raise ImportError('no libcudart')", "ImportError: no libcudart"),
        ("import os; os._exit(3)", "code 3"),
        ("import sys; sys.exit('stopped')", "code 1: stopped"),
    ],
)
def test_broken_tensorflow_is_a_finding(tmp_path: Path, module, error):
    (tmp_path / "tensorflow.py").write_text(module)
    (tmp_path / "horovod.py").write_text("raise ImportError('nor this')")
    loaded = load({**os.environ, "PYTHONPATH": str(tmp_path)})
    assert error in loaded.tensorflow_error and loaded.horovod_error


def test_loaded_packages_report_their_parts(tmp_path: Path, monkeypatch):
    devices = "config = types.SimpleNamespace(list_physical_devices=lambda kind: ['a', 'b'])"
    built = "gloo_built = lambda: True\nmpi_built = lambda: False\nnccl_built = lambda: 21100\n"
    cuda = "cuda = types.SimpleNamespace(device_count=lambda: 3)"
    (tmp_path / "horovod").mkdir()
    for name, content in {
        "tensorflow.py": f"import types\nprint('hello')\n__version__ = '9'\n{devices}\n",
        "horovod/__init__.py": "",
        "horovod/tensorflow.py": built,
        "torch.py": f"import types\nprint('hello')\n{cuda}\n",
    }.items():
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(software, "find_spec", lambda name: True)
    loaded = load({**os.environ, "PYTHONPATH": str(tmp_path)})
    assert loaded == Loaded(gpus=2, torch_gpus=3, horovod=frozenset({"gloo", "nccl"}))
    assert loaded.gpus_seen == {"TensorFlow": 2, "PyTorch": 3}
    (tmp_path / "torch.py").write_text("raise ImportError('no libcudart')")
    assert load({**os.environ, "PYTHONPATH": str(tmp_path)}).torch_gpus is None
