"""Every counterpart gives the shape and the dtype of its stage, and its picture where neither draws at random."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.stages import each
from tfhet.bench import Measurement, Sample
from tfhet.errors import UsageError

tf = pytest.importorskip("tensorflow")

from benchmarks.stages.counterparts import COUNTERPARTS, as_stage  # noqa: E402
from tfhet.stages import ImageSpec  # noqa: E402

# Not sharpen: the amounts differ, which costs the same.
DETERMINISTIC = {
    *("dilate", "erode", "gaussian_blur", "grayscale", "equalize", "gamma", "rescale", "normalize", "cast"),
    *("resize", "pad", "center_crop"),
}
APART = 1.01
"""Grey levels by which results may differ: either way of rounding is right."""
OTHERWISE = {("equalize", "float32")}
"""Addons equalizes floats from 0 to 1 as it does levels, which is another picture."""


def taken(cpu_s: float) -> Measurement:
    return Measurement("", "image", 1, (), (Sample(1.0, cpu_s), Sample(1.0, cpu_s)))


def test_the_slowest_ratio_is_the_least_of_all() -> None:
    figures = each.figures_of(
        {"dilate.uint8.32": (taken(1.0), taken(3.0), "a"), "pad.uint8.32": (taken(2.0), taken(1.0), "b")}
    )
    assert list(figures) == [
        "stages.slowest_ratio",
        "stages.each.dilate.uint8.32",
        "stages.each.pad.uint8.32",
        "stages.each.dilate.uint8.32.us_per_image",
        "stages.each.pad.uint8.32.us_per_image",
    ]
    assert figures["stages.slowest_ratio"].value == figures["stages.each.pad.uint8.32"].value == 0.5
    assert figures["stages.slowest_ratio"].against == "b"


@pytest.mark.parametrize("counterpart", COUNTERPARTS, ids=[counterpart.stage for counterpart in COUNTERPARTS])
def test_a_counterpart_gives_the_form_of_its_stage_and_its_picture_where_nothing_is_drawn(
    counterpart: each.Counterpart,
) -> None:
    name = counterpart.stage.partition("(")[0]
    pairs = [pair for pair in each.pairs([name]) if pair.counterpart is counterpart and pair.size == 32]
    assert pairs
    for pair in pairs:
        spec = ImageSpec(32, 32, 3, pair.dtype, 0.0, 255.0 if pair.dtype == "uint8" else 1.0)
        images = each.images(pair.dtype, 2, 32)
        try:
            work = counterpart.make(32, 32)
        except ImportError as error:
            pytest.skip(str(error))
        ours = each.staged(pair.stage, spec)(images, tf.range(2, dtype=tf.int64))
        theirs = work(images) if counterpart.batched else tf.stack([work(image) for image in images])
        theirs = as_stage(theirs, pair.stage.spec(spec).dtype)
        assert (theirs.shape, theirs.dtype) == (ours.shape, ours.dtype)
        if name in DETERMINISTIC and (name, pair.dtype) not in OTHERWISE:
            levels = 1.0 if pair.dtype == "uint8" and ours.dtype.name == "uint8" else 255.0
            apart = np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)) * levels
            assert apart.max() <= APART


def test_a_stage_without_counterpart_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="unknown stage with a counterpart 'mixup'; known: affine"):
        each.pairs(["mixup"])


def test_every_pair_has_a_figure_of_its_own() -> None:
    keys = [pair.key for pair in each.pairs()]
    assert len(keys) == len(set(keys))
    assert {"dilate.uint8.32", "gaussian_blur.float32.224", "resize.uint8.32", "resize-area.uint8.32"} <= set(keys)
