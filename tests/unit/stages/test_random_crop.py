"""Random windows against plain slicing of a padded copy; the places by distribution."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, RandomCrop, parse, randomness, text
from tfhet.stages.crop import MODES

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(10, 13, 3, "uint8", 0.0, 255.0)


def images(dtype: str = "uint8", channels: int = 3, count: int = 40) -> tf.Tensor:
    return tf.cast(np.random.default_rng(2).integers(0, 256, (count, 10, 13, channels)), dtype)


def draws(stage: RandomCrop, count: int = 40) -> dict[str, tf.Tensor]:
    return stage.parameters(randomness.keys(3, stage.name, 0, 0, tf.range(count, dtype=tf.int64)), SPEC)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize(
    ("height", "width", "padding", "channels"),
    [(10, 13, 4, 3), (0, 0, 3, 1), (7, 4, 0, 3), (1, 1, 1, 1), (14, 5, 2, 3)],
)
def test_each_window_is_the_slice_of_the_padded_image_at_the_place_drawn(mode, dtype, height, width, padding, channels):
    stage = RandomCrop(height, width, padding, mode, 7)
    batch, drawn = images(dtype, channels), draws(stage)
    constant = {"constant_values": 7} if mode == "constant" else {}
    padded = np.pad(batch.numpy(), [(0, 0), (padding, padding), (padding, padding), (0, 0)], mode, **constant)
    ours = stage.apply(batch, drawn)
    assert ours.dtype == batch.dtype
    cut = stage.spec(SPEC)
    assert ours.shape == (40, height or 10, width or 13, channels) == (40, cut.height, cut.width, channels)
    for index in range(40):
        top, left = int(drawn["top"][index]), int(drawn["left"][index])
        expected = padded[index, top : top + cut.height, left : left + cut.width]
        assert (ours[index].numpy() == expected).all()


def test_the_corners_are_reached_and_nothing_beyond_them():
    stage = RandomCrop(9, 13, 1)
    places = {"top": tf.constant([0, 3] * 20), "left": tf.constant([0, 2] * 20)}
    ours = stage.apply(images(), places).numpy()
    assert (ours[0, 0] == 0).all() and (ours[0, :, 0] == 0).all()
    assert (ours[0, 1:, 1:] == images()[0, :8, :12].numpy()).all()
    assert (ours[1, -1] == 0).all() and (ours[1, :, -1] == 0).all()
    assert (ours[1, :-1, :-1] == images()[1, 2:, 1:].numpy()).all()


def test_every_place_is_drawn_equally_often_and_rows_independently_of_columns():
    from scipy import stats

    drawn = draws(RandomCrop(8, 0, 1), 20_000)
    top, left = drawn["top"].numpy(), drawn["left"].numpy()
    assert (top.dtype, left.dtype) == (np.int32, np.int32)
    table = np.zeros((5, 3))
    np.add.at(table, (top, left), 1)  # an index beyond 10 + 2 - 8 or 13 + 2 - 13 would fail here
    assert stats.chisquare(table.ravel()).pvalue > 0.01


@pytest.mark.parametrize("places", [2, 3, 9, 33, 1000, 65537, 2**23 - 1, 2**24 - 1])
def test_the_largest_random_number_stays_below_the_number_of_places(places):
    assert int(np.float32(1 - 2**-24) * np.float32(places)) == places - 1


def test_an_example_draws_the_same_in_every_batch():
    stage = RandomCrop(padding=4)
    together = draws(stage)
    alone = stage.parameters(randomness.keys(3, stage.name, 0, 0, tf.constant([17], tf.int64)), SPEC)
    assert all(alone[name].numpy()[0] == together[name].numpy()[17] for name in ("top", "left"))


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_window_of_the_whole_image_leaves_it_as_it_is(dtype):
    assert (RandomCrop().apply(images(dtype), draws(RandomCrop())).numpy() == images(dtype).numpy()).all()


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: RandomCrop(-1), "random_crop: height is at least 0, not -1"),
        (lambda: RandomCrop(mode="wrap"), "mode of stage random_crop 'wrap'; known: constant, edge"),
        (lambda: RandomCrop(13, 4, 1).spec(SPEC), "random_crop: 13 x 4 pixels do not fit into 12 x 15"),
        (lambda: RandomCrop(padding=1, value=300).spec(SPEC), "value 300 is outside the images' range, 0 to 255"),
        (lambda: RandomCrop(padding=1, value=0.5).spec(SPEC), "value 0.5 is not a whole number"),
        (lambda: RandomCrop(4, 4).spec(ImageSpec(None, 9, 3, "uint8", 0, 255)), "height and width .* must be known"),
    ],
)
def test_what_does_not_fit_is_refused(build, complaint):
    with pytest.raises(UsageError, match=complaint):
        build()


def test_only_a_constant_border_forbids_a_rescale_to_move_past_and_it_reads_from_text_and_back():
    stages = parse("random_crop(32, 32, padding=4); random_crop(24, 24); random_crop(padding=4, mode='reflect')")
    assert [stage.commutes_with_rescale for stage in stages] == [False, True, True]
    assert parse(text(stages)) == stages
