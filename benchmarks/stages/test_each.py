"""Every counterpart returns the shape and dtype of its stage, and its image if neither draws random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.stages import each
from tfhet.bench import Measurement, Sample

tf = pytest.importorskip("tensorflow")

from benchmarks.stages.counterparts import COUNTERPARTS, as_stage  # noqa: E402

# Without sharpen: the amounts differ, which costs the same.
DETERMINISTIC = {
    *("dilate", "erode", "gaussian_blur", "grayscale", "equalize", "gamma", "rescale", "normalize", "cast"),
    *("resize", "pad", "center_crop"),
}
OTHER_IMAGE = {("equalize", "float32")}
"""Addons equalizes floats from 0 to 1 as if they were levels."""
ONE_LEVEL = 1.01


def taken(cpu_s: float) -> Measurement:
    return Measurement("", "image", 1, (), (Sample(1.0, cpu_s), Sample(1.0, cpu_s)))


def test_slowest_ratio_is_smallest_of_all() -> None:
    pairs = {"dilate.uint8.32": (taken(1.0), taken(3.0), "a"), "pad.uint8.32": (taken(2.0), taken(1.0), "b")}
    figures = each.figures_of(pairs)
    assert figures["stages.each.dilate.uint8.32"].value == 3.0
    assert figures[each.SLOWEST].value == 0.5 and figures[each.SLOWEST].against == "b"
    assert figures["stages.each.pad.uint8.32.us_per_image"].value == pytest.approx(2e6)


@pytest.mark.parametrize("counterpart", COUNTERPARTS, ids=[counterpart.stage for counterpart in COUNTERPARTS])
def test_counterpart_makes_image_of_its_stage(counterpart: each.Counterpart) -> None:
    name = counterpart.stage.partition("(")[0]
    pairs = [pair for pair in each.pairs([name]) if pair.counterpart is counterpart and pair.size == 32]
    assert pairs
    for pair in pairs:
        images = each.images(pair.dtype, 2, 32)
        try:
            work = counterpart.make(32, 32)
        except ImportError as error:
            pytest.skip(str(error))
        ours = each.staged(pair.stage, pair.spec)(images, tf.range(2, dtype=tf.int64))
        theirs = work(images) if counterpart.is_batched else tf.stack([work(image) for image in images])
        theirs = as_stage(theirs, pair.stage.spec(pair.spec).dtype)
        assert (theirs.shape, theirs.dtype) == (ours.shape, ours.dtype)
        if name in DETERMINISTIC and (name, pair.dtype) not in OTHER_IMAGE:
            levels = 1.0 if pair.dtype == "uint8" and ours.dtype.name == "uint8" else 255.0
            apart = np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)) * levels
            assert apart.max() <= ONE_LEVEL


def test_every_pair_has_its_own_figure() -> None:
    keys = [pair.key for pair in each.pairs()]
    assert len(keys) == len(set(keys))
    assert {"dilate.uint8.32", "gaussian_blur.float32.224", "resize.uint8.32", "resize-area.uint8.32"} <= set(keys)
