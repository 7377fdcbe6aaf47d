"""The profile of a loader: each transform if the dataset has a list of them, else the whole."""

from __future__ import annotations

import time

import numpy as np
import pytest

import tfhet
from tfhet import advice
from tfhet.errors import UsageError
from tfhet.plan.workload import PipelineCost
from tfhet.profile import Effort
from tfhet.profile.handed_over import measure_target
from tfhet.profile.loader import measure_loader
from tfhet.strategies import JobContext

ALONE = JobContext("alone", "local")
EFFORT = Effort(budget_s=0.2, repeats=2)


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, example):
        for transform in self.transforms:
            example = transform(example)
        return example


def normalize(image):
    spin(0.0005)
    return image / 255


class Blur:
    def __call__(self, image):
        spin(0.002)
        return image.astype(np.float64)


class Pictures:
    transform = Compose([normalize, Blur()])

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return self.transform(np.full((4, 4), index, np.float32)), index


class Nothing:
    def __len__(self):
        return 0

    def __getitem__(self, index):
        raise IndexError


def pictures(shard):
    return Pictures()


def nothing(shard):
    return Nothing() if shard.count else []


def batches(shard):
    for _ in range(3):
        spin(0.004)
        yield np.zeros((8, 10), np.uint8), ["a"] * 8


def test_each_transform_has_its_share():
    found = measure_loader(tfhet.batches(pictures, batch_size=4, job=ALONE), EFFORT)
    assert [cost.name for cost in found.costs] == ["dataset", "normalize", "Blur", "batch"]
    assert 300 < found.us(1) < 1500 and 1500 < found.us(2) < 5000
    assert found.costs[2].dtype == "float64" and found.costs[2].bytes_per_example == 16 * 8 + 8
    assert found.costs[1].bytes_per_example == 16 * 4 + 8
    assert found.costs[-1].examples == 4 and found.costs[-1].bytes_per_example == 16 * 8 + 8
    assert len(Pictures.transform.transforms) == 2
    assert found.plane == "feed"
    (advised,) = advice.of_pipeline(found)
    assert advised.kind == "dominant_python" and "'Blur'" in advised.clause
    (cut,) = PipelineCost.of(found).cuts
    assert cut.remote_us.value == pytest.approx(found.whole_us)


def test_iterable_is_measured_as_a_whole():
    found = measure_target(tfhet.batches(batches, job=ALONE), EFFORT)
    (cost,) = found.costs
    assert cost.name.endswith(":batches") and cost.examples == 8 and cost.bytes_per_example == 11
    assert 300 < found.whole_us < 1500


def test_empty_loader_is_refused():
    with pytest.raises(UsageError, match="nothing"):
        measure_loader(tfhet.batches(nothing, batch_size=2, job=ALONE), EFFORT)
