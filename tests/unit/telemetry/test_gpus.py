from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tfhet.telemetry.gpus import GpuMonitor, gpu_count


class FakeNvml:
    """The module of nvidia-ml-py with two GPUs; stops its reader after so many rounds, or refuses. is_old: whether its
    driver counts what it keeps for itself as memory in use."""

    class NVMLError(Exception):
        pass

    nvmlMemory_v2 = 0x2000028

    def __init__(self, rounds: int = 1, refuses: str = "", is_old: bool = False):
        self.calls: list[str] = []
        self.gpus: GpuMonitor | None = None
        self._rounds, self._refuses, self._is_old = rounds, refuses, is_old

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, version: int | None = None) -> Any:
            self.calls.append(name)
            if version and self._is_old:
                raise self.NVMLError("version mismatch")
            if name == self._refuses:
                raise self.NVMLError(f"{name} failed")
            if name == "nvmlDeviceGetCount":
                return 2
            if name == "nvmlDeviceGetHandleByIndex":
                return arguments[0]
            if name == "nvmlDeviceGetUtilizationRates":
                self._rounds -= arguments[0] == 1
                if self._rounds == 0 and self.gpus is not None:
                    self.gpus.stop()
                return SimpleNamespace(gpu=10 * (arguments[0] + 1))
            if name == "nvmlDeviceGetMemoryInfo":
                return SimpleNamespace(used=1000 + arguments[0] + (0 if version == self.nvmlMemory_v2 else 500))
            return None

        return call


def gpus_of(nvml: FakeNvml) -> GpuMonitor:
    nvml.gpus = GpuMonitor(lambda: nvml)
    return nvml.gpus


def test_every_gpu_is_read_until_the_reader_is_stopped():
    nvml = FakeNvml(rounds=3)
    gpus = gpus_of(nvml)
    gpus.run(period_s=0.0)
    assert gpus.latest == ((10.0, 1000), (20.0, 1001))
    assert (gpus.missing, nvml.calls.count("nvmlDeviceGetMemoryInfo")) == ("", 6)
    assert nvml.calls[0] == "nvmlInit" and nvml.calls[-1] == "nvmlShutdown"


def test_an_old_driver_counts_its_own_memory_too():
    gpus = gpus_of(FakeNvml(rounds=1, is_old=True))
    gpus.run(period_s=0.0)
    assert (gpus.latest, gpus.missing) == (((10.0, 1500), (20.0, 1501)), "")


def test_a_driver_that_refuses_is_named_and_nothing_old_is_told():
    for refuses in ("nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetMemoryInfo"):
        gpus = gpus_of(FakeNvml(refuses=refuses))
        gpus.latest = ((99.0, 1),)
        gpus.run(period_s=0.0)
        assert (gpus.latest, gpus.missing) == ((), f"NVML reports: {refuses} failed")


def test_without_nvidia_ml_py_nothing_runs_and_it_is_named():
    def missing() -> Any:
        raise ImportError("No module named 'pynvml'")

    gpus = GpuMonitor(missing).start()
    assert gpus.latest == ()
    assert "pip install nvidia-ml-py" in gpus.missing
    gpus.stop()


@pytest.fixture
def driver(tmp_path):
    for name in ("0000:00:1e.0", "0000:00:1f.0"):
        (tmp_path / "gpus" / name).mkdir(parents=True)
    return tmp_path / "gpus"


def test_the_driver_says_how_many_there_are(driver, tmp_path):
    assert gpu_count({}, driver) == 2
    assert gpu_count({}, tmp_path / "nothing") == 0


def test_what_sagemaker_says_goes_before_the_driver(driver):
    assert gpu_count({"SM_NUM_GPUS": "8"}, driver) == 8
    assert gpu_count({"SM_NUM_GPUS": "0"}, driver) == 0
    assert gpu_count({"SM_NUM_GPUS": "many"}, driver) == 2


@pytest.mark.parametrize(
    ("visible", "count"), [("", 0), ("0", 1), ("0,1,2", 3), ("-1", 0), ("0,-1,1", 1), ("GPU-8932f937,GPU-1", 2)]
)
def test_only_gpus_that_a_process_may_use_count(driver, visible, count):
    assert gpu_count({"CUDA_VISIBLE_DEVICES": visible, "SM_NUM_GPUS": "8"}, driver) == count
