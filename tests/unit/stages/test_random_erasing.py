from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet import stages
from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, RandomErasing, randomness
from tfhet.stages.painting import painted

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(33, 47, 3, "uint8", 0.0, 255.0)
COUNT = 20_000


def images(channels: int = 3, count: int = 6) -> np.ndarray:
    """Without the values that are painted in these tests, so that what was painted can be seen."""
    return np.random.default_rng(1).integers(10, 256, (count, 33, 47, channels)).astype(np.uint8)


def keys(count: int) -> tf.Tensor:
    return randomness.keys(3, "random_erasing", 0, 0, tf.range(count, dtype=tf.int64))


@pytest.mark.parametrize("value", [0.0, 7.0])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_rectangles_are_painted_and_the_rest_stays(dtype, channels, value):
    batch = images(channels).astype(dtype)
    boxes = np.float32([[0, 33, 0, 47], [3, 4, 5, 9], [3, 3, 5, 9], [-4, 2, 40, 60], [30, 40, -5, 1], [50, 60, 0, 47]])
    ours = painted(tf.constant(batch), *tf.unstack(tf.constant(boxes), axis=1), value)
    for image, (top, bottom, left, right) in zip(batch, np.maximum(boxes, 0).astype(int), strict=True):
        image[top:bottom, left:right] = value
    assert ours.dtype == dtype
    assert (ours.numpy() == batch).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_each_erased_image_loses_one_rectangle_of_the_drawn_area_and_shape_inside_it(channels):
    stage = RandomErasing(0.5)
    batch = images(channels, 300)
    drawn = {name: value.numpy() for name, value in stage.parameters(keys(300), SPEC).items()}
    ours = stage.apply(tf.constant(batch), drawn).numpy()
    gone = (ours == 0).all(axis=-1)
    assert (gone | (ours == batch).all(axis=-1)).all()
    assert (gone.any(axis=(1, 2)) == drawn["erase"]).all()
    for index in np.flatnonzero(drawn["erase"]):
        rows, columns = np.flatnonzero(gone[index].any(axis=1)), np.flatnonzero(gone[index].any(axis=0))
        assert gone[index, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
        area = drawn["area"][index] * 33 * 47
        assert abs(rows.size - min(np.sqrt(area * drawn["ratio"][index]), 33)) <= 0.5 + 1e-3
        assert abs(columns.size - min(np.sqrt(area / drawn["ratio"][index]), 47)) <= 0.5 + 1e-3
        assert rows[-1] - rows[0] + 1 == rows.size
        assert columns[-1] - columns[0] + 1 == columns.size


def test_each_number_is_drawn_from_its_range_independently_and_the_same_in_any_batch():
    stage = RandomErasing(0.3, (0.1, 0.2), (0.5, 2.0))
    drawn = stage.parameters(keys(COUNT), SPEC)
    assert abs(drawn["erase"].numpy().mean() - 0.3) < 4 * np.sqrt(0.3 * 0.7 / COUNT)
    scaled = {
        "area": (drawn["area"].numpy() - 0.1) / 0.1,
        "ratio": np.log(drawn["ratio"].numpy() / 0.5) / np.log(4),
        "top": drawn["top"].numpy(),
        "left": drawn["left"].numpy(),
    }
    for values in scaled.values():
        assert -1e-5 <= values.min() < 0.001
        assert 0.999 < values.max() <= 1 + 1e-5
        assert abs(values.mean() - 0.5) < 4 / np.sqrt(12 * COUNT)
    rows = np.stack([drawn["erase"].numpy(), *scaled.values()])
    assert np.abs(np.corrcoef(rows) - np.eye(5)).max() < 4 / np.sqrt(COUNT)
    for name, value in stage.parameters(keys(COUNT)[70:75], SPEC).items():
        assert (value.numpy() == drawn[name].numpy()[70:75]).all()


def test_every_place_is_as_likely_as_any_other():
    places = np.linspace(0, 1, 300, endpoint=False, dtype=np.float32)
    given = {"erase": tf.fill([300], True), "area": tf.fill([300], 9 / 120), "ratio": tf.ones([300])}
    given |= {"top": tf.constant(places), "left": tf.constant(places[::-1].copy())}
    ours = RandomErasing().apply(tf.ones([300, 10, 12, 1]), given).numpy()[..., 0]
    tops = (ours == 0).any(axis=2).argmax(axis=1)
    lefts = (ours == 0).any(axis=1).argmax(axis=1)
    assert np.abs(np.bincount(tops, minlength=8) - 300 / 8).max() <= 1
    assert np.abs(np.bincount(lefts, minlength=10) - 300 / 10).max() <= 1


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_never_and_always_are_meant(probability):
    stage = RandomErasing(probability, scale=(1.0, 1.0), ratio=(1.0, 1.0), value=255)
    square = np.zeros((9, 5, 5, 1), np.uint8)
    ours = stage.apply(tf.constant(square), stage.parameters(keys(9), SPEC)).numpy()
    assert (ours == 255 * probability).all()


def test_text_reads_back():
    chain = (RandomErasing(0.2, (0.1, 0.2), (0.5, 2.0), 3.0),)
    assert stages.parse(stages.text(chain)) == chain
    assert stages.parse("random_erasing(scale=[0.1, 0.2])") == (RandomErasing(scale=(0.1, 0.2)),)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"probability": 1.1}, "probability is from 0 to 1, not 1.1"),
        ({"scale": (0.5, 0.1)}, "scale is a pair of positive numbers, the smaller first, up to 1"),
        ({"scale": (0.5, 1.1)}, "scale is a pair"),
        ({"scale": 0.5}, "scale is a pair"),
        ({"ratio": (0.0, 1.0)}, "ratio is a pair"),
        ({"ratio": (1.0, 2.0, 3.0)}, "ratio is a pair"),
        ({"ratio": ("low", "high")}, "ratio is a pair"),
    ],
)
def test_a_wrong_field_is_refused(arguments, complaint):
    with pytest.raises(UsageError, match=f"random_erasing: {complaint}"):
        RandomErasing(**arguments)


@pytest.mark.parametrize("value", [-1.0, 256.0, 0.5])
def test_a_value_that_the_images_cannot_hold_is_refused(value):
    with pytest.raises(
        UsageError, match=f"random_erasing: value {value:g} is (outside the images' range, 0 to 255|not a whole number)"
    ):
        RandomErasing(value=value).spec(SPEC)
