"""Boxes against torchvision's loop, written here; parts against tf.image.resize and numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, RandomResizedCrop, parse, randomness, text
from tfhet.stages.resize import TRIES

SHAPES = [(32, 32), (20, 45), (61, 12)]


def spec(height: int = 20, width: int = 28) -> ImageSpec:
    return ImageSpec(height, width, 3, "uint8", 0.0, 255.0)


def images(dtype: str = "float32", height: int = 20, width: int = 28, channels: int = 3, count: int = 12) -> tf.Tensor:
    return tf.cast(np.random.default_rng(2).integers(0, 256, (count, height, width, channels)), dtype)


def boxes(stage: RandomResizedCrop, of: ImageSpec, count: int) -> np.ndarray:
    keys = randomness.keys(3, stage.name, 0, 0, tf.range(count, dtype=tf.int64))
    return stage.parameters(keys, of)["box"].numpy()


def torchvision_box(height: int, width: int, scale, ratio, random) -> tuple[int, int, int, int]:
    """RandomResizedCrop.get_params; `random` gives numbers of [0, 1) for: area, ratio (each try), top, left."""
    for attempt in range(10):
        area = height * width * (scale[0] + random(attempt) * (scale[1] - scale[0]))
        low, high = math.log(ratio[0]), math.log(ratio[1])
        aspect = math.exp(low + random(10 + attempt) * (high - low))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(random(20) * (height - h + 1)), int(random(21) * (width - w + 1)), h, w
    in_ratio = width / height
    w, h = width, height
    if in_ratio < min(ratio):
        h = round(w / min(ratio))
    elif in_ratio > max(ratio):
        w = round(h * max(ratio))
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ranges", [(0.08, 1.0, 3 / 4, 4 / 3), (0.6, 1.0, 0.5, 2.0)])
def test_boxes_are_those_of_the_loop_of_torchvision_for_the_same_random_numbers(shape, ranges):
    stage, count = RandomResizedCrop(8, 8, *ranges), 400
    keys = randomness.keys(3, stage.name, 0, 0, tf.range(count, dtype=tf.int64))
    numbers = np.stack([np.float64(randomness.uniform(keys, draw)) for draw in range(2 * TRIES + 2)])
    ours = boxes(stage, spec(*shape), count)
    theirs = np.array(
        [torchvision_box(*shape, ranges[:2], ranges[2:], numbers[:, i].__getitem__) for i in range(count)]
    )
    assert (ours == theirs).all(axis=1).mean() > 0.995  # float32 may round a side at .5, or a place, otherwise


@pytest.mark.parametrize("shape", SHAPES)
def test_area_ratio_and_place_are_distributed_as_by_torchvision(shape):
    from scipy import stats

    stage, random = RandomResizedCrop(), np.random.default_rng(7)
    ours = np.float64(boxes(stage, spec(*shape), 8000))
    drawn = [torchvision_box(*shape, (0.08, 1.0), (3 / 4, 4 / 3), lambda _: random.random()) for _ in range(8000)]
    theirs = np.float64(drawn)
    for figure in (
        lambda box: box[:, 2] * box[:, 3],
        lambda box: box[:, 3] / box[:, 2],
        lambda box: box[:, 0],
        lambda box: box[:, 1],
    ):
        assert stats.ks_2samp(figure(ours), figure(theirs)).pvalue > 0.01
    assert (ours[:, :2] >= 0).all() and (ours[:, 2:] >= 1).all()
    assert (ours[:, :2] + ours[:, 2:] <= shape).all()


def test_where_no_box_fits_the_part_is_the_central_one_closest_to_the_ratios():
    wide = RandomResizedCrop(8, 8, 1.0, 1.0)
    assert (boxes(wide, spec(10, 40), 50) == [0, 13, 10, 13]).all()
    assert (boxes(wide, spec(40, 10), 50) == [13, 0, 13, 10]).all()


def between_centres(image: np.ndarray, box, rows: int, columns: int) -> np.ndarray:
    """Bilinear samples of the part, its edge repeated beyond it, at the centres of its new pixels."""
    image = image[box[0] : box[0] + box[2], box[1] : box[1] + box[3]]
    for axis, wanted in ((0, rows), (1, columns)):
        there = image.shape[axis]
        at = np.clip((np.arange(wanted) + 0.5) * there / wanted - 0.5, 0, there - 1)
        low = np.floor(at).astype(int)
        share = (at - low).reshape([-1 if i == axis else 1 for i in range(3)])
        image = np.take(image, low, axis) * (1 - share) + np.take(image, np.minimum(low + 1, there - 1), axis) * share
    return image


@pytest.mark.parametrize("size", [(16, 16), (7, 31), (1, 1)])
@pytest.mark.parametrize(("height", "width", "channels"), [(20, 28, 3), (17, 9, 1)])
def test_parts_are_sampled_between_the_centres_of_pixels(size, height, width, channels):
    stage = RandomResizedCrop(*size)
    batch, box = images("float32", height, width, channels), boxes(stage, spec(height, width), 12)
    ours = stage.apply(batch, {"box": tf.constant(box)})
    assert ours.shape == (12, *size, channels)
    for index in range(12):
        expected = between_centres(np.float64(batch[index]), box[index], *size)
        np.testing.assert_allclose(ours[index], expected, atol=0.01)


def test_a_part_that_shrinks_is_that_of_cutting_and_then_resizing():
    stage = RandomResizedCrop(5, 4, 0.3)
    batch, box = images(), boxes(stage, spec(), 12)
    ours = stage.apply(batch, {"box": tf.constant(box)}).numpy()
    for index, (top, left, rows, columns) in enumerate(box):
        part = batch[index, top : top + rows, left : left + columns]
        np.testing.assert_allclose(ours[index], tf.image.resize(part, [5, 4]), atol=0.01)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_box_of_the_whole_image_at_its_own_size_leaves_it_as_it_is(dtype):
    stage = RandomResizedCrop(20, 28)
    ours = stage.apply(images(dtype), {"box": tf.constant([[0, 0, 20, 28]] * 12)})
    np.testing.assert_allclose(ours, images(dtype), atol=0.0 if dtype == "uint8" else 0.005)


def test_uint8_images_are_rounded_and_do_not_darken():
    stage = RandomResizedCrop(16, 16)
    drawn = {"box": tf.constant(boxes(stage, spec(), 12))}
    rounded = stage.apply(images("uint8"), drawn)
    assert rounded.dtype == tf.uint8
    assert (rounded.numpy() == np.rint(stage.apply(images(), drawn))).all()


def test_an_enlarged_plain_image_stays_plain_up_to_its_edges():
    stage = RandomResizedCrop(64, 64)
    drawn = {"box": tf.constant(boxes(stage, spec(), 12))}
    for level in (0, 255):
        plain = tf.fill([12, 20, 28, 3], tf.constant(level, tf.uint8))
        assert (stage.apply(plain, drawn).numpy() == level).all()


def test_an_example_draws_the_same_in_every_batch():
    stage = RandomResizedCrop()
    together = boxes(stage, spec(), 40)
    keys = randomness.keys(3, stage.name, 0, 0, tf.constant([17], tf.int64))
    assert (stage.parameters(keys, spec())["box"].numpy()[0] == together[17]).all()


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: RandomResizedCrop(0), "random_resized_crop: height is at least 1, not 0"),
        (lambda: RandomResizedCrop(scale_low=0), "scale_low is above 0, not 0.0"),
        (lambda: RandomResizedCrop(scale_high=1.5), "scale_high is from 0 to 1, not 1.5"),
        (lambda: RandomResizedCrop(ratio_low=2), "ratio_low is at most ratio_high, not 2.0"),
        (
            lambda: RandomResizedCrop().spec(ImageSpec(None, 9, 3, "uint8", 0, 255)),
            "random_resized_crop: height and width of the images must be known",
        ),
    ],
)
def test_what_is_out_of_range_is_refused(build, complaint):
    with pytest.raises(UsageError, match=complaint):
        build()


def test_it_says_its_size_and_reads_from_text_and_back():
    stages = parse("random_resized_crop(160, 128, scale_low=0.25, ratio_low=1/2)")
    assert stages[0].spec(spec()) == ImageSpec(160, 128, 3, "uint8", 0.0, 255.0)
    assert parse(text(stages)) == stages == (RandomResizedCrop(160, 128, 0.25, ratio_low=0.5),)
