from __future__ import annotations

import pytest

from tfhet.telemetry.gpu_count import gpu_count


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
