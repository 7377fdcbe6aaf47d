from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfhet.doctor import Status, software
from tfhet.doctor.software import Loaded, checks, load

pytestmark = pytest.mark.timeout(120)
ALL = {"tensorflow": "2.15.1", "keras": "2.15.0", "horovod": "0.28.1", "mpi4py": "4.1.2", "sagemaker-training": "5.1.4"}
NOTHING_WRONG = Loaded()


def found(loaded: Loaded = NOTHING_WRONG, gpus: int = 0, **installed: str | None):
    there = {**ALL, **{name.replace("_", "-"): version for name, version in installed.items()}}
    there = {name: version for name, version in there.items() if version}
    return {check.name: check for check in checks(loaded, gpus, there)}


def test_what_is_installed_and_loads_is_ok():
    made = found(Loaded(horovod=frozenset({"gloo", "mpi"})))
    for name in ("Python", "tensorflow", "horovod", "Horovod with Gloo", "Horovod with MPI", "sagemaker-training"):
        assert made[name].status is Status.OK and not made[name].what_to_do
    assert made["tensorflow"].found == "2.15.1, Keras 2.15.0"


def test_what_is_not_installed_is_missing_and_says_how_to_have_it():
    made = found(sagemaker_training=None, horovod=None)
    assert made["sagemaker-training"].status is made["horovod"].status is Status.MISSING
    assert made["sagemaker-training"].what_to_do == "pip install tfhet[sagemaker]"
    assert made["horovod"].what_to_do == "pip install tfhet[horovod]"
    assert "Horovod with Gloo" not in made
    assert not any(check.is_fatal for check in made.values())


def test_only_without_tensorflow_nothing_works():
    made = found(Loaded(tensorflow_error="ImportError: no libcudart"))
    assert made["tensorflow"].is_fatal
    assert "2.15.1" in made["tensorflow"].found and "no libcudart" in made["tensorflow"].found
    assert [check.name for check in made.values() if check.is_fatal] == ["tensorflow"]
    gone = found(Loaded(tensorflow_error="ModuleNotFoundError"), tensorflow=None)["tensorflow"]
    assert gone.is_fatal and gone.found == "not installed" and "pip install tensorflow" in gone.what_to_do


def test_with_pytorch_scripts_do_without_tensorflow():
    gone = Loaded(tensorflow_error="ModuleNotFoundError", torch_gpus=1)
    made = found(gone, tensorflow=None, torch="2.13.0")
    assert not any(check.is_fatal for check in made.values())
    assert made["torch"].status is Status.OK and gone.gpus_seen == {"PyTorch": 1}
    broken = found(torch="2.13.0")["torch"]
    assert broken.status is Status.MISSING and broken.found == "2.13.0: it does not load"


def test_a_horovod_that_does_not_load_says_why():
    made = found(Loaded(horovod_error="ImportError: libmpi.so.40"))
    assert made["horovod"].status is Status.MISSING
    assert "libmpi.so.40" in made["horovod"].found


def test_what_horovod_was_not_built_with_says_how_to_build_it():
    made = found(Loaded(horovod=frozenset({"gloo"})))
    assert made["Horovod with MPI"].status is Status.MISSING
    assert "HOROVOD_WITH_MPI=1" in made["Horovod with MPI"].what_to_do


def test_nccl_is_asked_for_where_there_are_gpus_only():
    gloo = Loaded(horovod=frozenset({"gloo", "mpi"}))
    assert "Horovod with NCCL" not in found(gloo, gpus=0)
    assert found(gloo, gpus=4)["Horovod with NCCL"].status is Status.MISSING


@pytest.mark.parametrize(
    ("module", "error"),
    [
        ("raise ImportError('no libcudart')", "ImportError: no libcudart"),
        ("import os; os._exit(3)", "loading it ends Python with code 3"),
        ("import sys; sys.exit('stopped')", "loading it ends Python with code 1: stopped"),
    ],
)
def test_a_tensorflow_that_does_not_load_is_a_finding(tmp_path: Path, module, error):
    (tmp_path / "tensorflow.py").write_text(module)
    (tmp_path / "horovod.py").write_text("raise ImportError('nor this')")
    loaded = load({**os.environ, "PYTHONPATH": str(tmp_path)})
    assert error in loaded.tensorflow_error
    assert loaded.horovod_error


def test_what_loads_is_asked_what_it_can(tmp_path: Path, monkeypatch):
    (tmp_path / "tensorflow.py").write_text(
        "import types\n"
        "print('hello')\n"
        "__version__ = '9'\n"
        "config = types.SimpleNamespace(list_physical_devices=lambda kind: ['a', 'b'])\n"
    )
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod" / "__init__.py").touch()
    (tmp_path / "horovod" / "tensorflow.py").write_text(
        "gloo_built = lambda: True\nmpi_built = lambda: False\nnccl_built = lambda: 21100\n"
    )
    (tmp_path / "torch.py").write_text(
        "import types\nprint('hello')\ncuda = types.SimpleNamespace(device_count=lambda: 3)\n"
    )
    monkeypatch.setattr(software, "find_spec", lambda name: True)
    loaded = load({**os.environ, "PYTHONPATH": str(tmp_path)})
    assert loaded == Loaded(gpus=2, torch_gpus=3, horovod=frozenset({"gloo", "nccl"}))
    assert loaded.gpus_seen == {"TensorFlow": 2, "PyTorch": 3}
    (tmp_path / "torch.py").write_text("raise ImportError('no libcudart')")
    assert load({**os.environ, "PYTHONPATH": str(tmp_path)}).torch_gpus is None
