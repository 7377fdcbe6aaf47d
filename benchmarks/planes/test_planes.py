"""The suite of the three data planes: their pictures are the same, and what its figures say."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

from benchmarks.planes.pictures import CHAINS, check, dataset, make_batches
from benchmarks.planes.suite import SUITE, divided, figures_of
from benchmarks.planes.windowed_job import Window
from tfhet.errors import UsageError
from tfhet.events import ignore
from tfhet.planes.feed import Shard
from tfhet.units import MB


@pytest.mark.parametrize("name", sorted(CHAINS))
def test_tf_data_service_and_the_feed_give_the_same_pictures(name: str):
    for batch in dataset(name, 1).take(1):
        arrays = {key: value.numpy() for key, value in batch.items()}
        check(arrays, name)
        assert arrays["image"].nbytes == CHAINS[name].batch_bytes
    first = next(iter(make_batches(Shard(1, 2), name, 1)))
    check(first, name)
    assert first["id"][0] == CHAINS[name].batch_size, "the second batch is the first of the second shard"


def test_a_picture_that_is_none_of_the_chain_is_refused():
    batch = next(iter(make_batches(Shard(0, 1), "small", 1)))
    with pytest.raises(AssertionError):
        check({**batch, "image": np.zeros_like(batch["image"])}, "small")


def test_figures_are_of_an_example_and_of_a_gigabyte():
    cpu_s = {"dnn_group": 0.3, "data_group": 0.5}
    window = Window(0.002, 100, 0.2, cpu_s, 0.0, 7.0, 50 * MB, {"dnn_group": 60 * MB, "data_group": 70 * MB}, {})
    figures = figures_of({"numpy.small": [0.0008]}, {"ray.small": [window]})
    size = CHAINS["small"].batch_size
    assert figures["planes.numpy.small.alone_ms"].value == pytest.approx(0.8 / size)
    assert figures["planes.ray.small.examples_per_s"].value == pytest.approx(size / 0.002)
    assert figures["planes.ray.small.cpu_ms"].value == pytest.approx(1e3 * 0.8 / (100 * size))
    gb = 100 * CHAINS["small"].batch_bytes / 1e9
    assert figures["planes.ray.small.reader_cpu_s_per_gb"].value == pytest.approx(0.3 / gb)
    assert [figures[f"planes.ray.small.{name}_mb"].value for name in ("rank", "dnn_host", "data_host")] == [50, 60, 70]
    assert figures["planes.ray.small.first_batch_s"].value == 7


def test_a_blur_says_nothing_of_what_a_gigabyte_costs():
    window = Window(
        0.002, 100, 0.2, {"dnn_group": 0.3, "data_group": 0.5}, 0.0, 7.0, 1, {"dnn_group": 1, "data_group": 1}, {}
    )
    assert "planes.feed.blurs.cpu_ms" in (found := figures_of({}, {"feed.blurs": [window]}))
    assert "planes.feed.blurs.reader_cpu_s_per_gb" not in found


def test_batches_alone_are_told_from_jobs():
    taken = {"tf.small": [0.1], "numpy.small": [0.2], "tf_service.small": ["a window"]}
    assert divided(taken) == ({"tf.small": [0.1], "numpy.small": [0.2]}, {"tf_service.small": ["a window"]})


def test_an_unknown_plane_is_refused_by_name():
    with pytest.raises(UsageError, match="unknown --planes 'dali'"):
        SUITE.run(argparse.Namespace(planes="dali", chains="small"), ignore, ())
