from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet import stages
from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, OneOf, Posterize, RandomBrightness, Solarize, randomness

SPEC = ImageSpec(6, 5, 3, "uint8", 0.0, 255.0)
THREE = OneOf((Posterize(2), RandomBrightness(0.4), Solarize(100)), weights=(1, 2, 5))


def images(count: int, dtype: str = "uint8") -> tf.Tensor:
    values = np.random.default_rng(2).integers(0, 256, (count, 6, 5, 3))
    return tf.constant(values.astype(np.uint8) if dtype == "uint8" else np.float32(values / 255))


def keys(count: int, position: int = 0) -> tf.Tensor:
    return randomness.keys(7, "one_of", position, 0, tf.range(count, dtype=tf.int64))


def test_each_image_is_what_the_stage_that_it_drew_makes_of_it():
    drawn = THREE.parameters(keys(40), SPEC)
    ours = THREE.apply(images(40), drawn).numpy()
    brightness = {"brightness": drawn["random_brightness:1/brightness"]}
    each = [
        Posterize(2).apply(images(40), {}).numpy(),
        RandomBrightness(0.4).apply(images(40), brightness).numpy(),
        Solarize(100).apply(images(40), {}).numpy(),
    ]
    choice = drawn["choice"].numpy()
    assert set(choice) == {0, 1, 2}
    for index in range(40):
        assert (ours[index] == each[choice[index]][index]).all()


def test_stages_are_drawn_in_proportion_to_their_weights():
    choice = THREE.parameters(keys(40_000), SPEC)["choice"].numpy()
    shares = np.bincount(choice, minlength=3) / 40_000
    assert np.abs(shares - np.array([1, 2, 5]) / 8).max() < 4 * np.sqrt(0.25 / 40_000)
    even = OneOf(THREE.stages).parameters(keys(40_000), SPEC)["choice"].numpy()
    assert np.abs(np.bincount(even) / 40_000 - 1 / 3).max() < 4 * np.sqrt(0.25 / 40_000)


def test_a_stage_of_weight_0_is_never_drawn():
    stage = OneOf((Posterize(2), Solarize(100), Posterize(3)), weights=(0, 1, 0))
    assert set(stage.parameters(keys(5000), SPEC)["choice"].numpy()) == {1}


def test_stages_inside_draw_from_keys_of_their_own():
    twice = OneOf((RandomBrightness(0.4), RandomBrightness(0.4)))
    drawn = twice.parameters(keys(2000), SPEC)
    first, second = (drawn[f"random_brightness:{at}/brightness"].numpy() for at in (0, 1))
    outside = RandomBrightness(0.4).parameters(keys(2000), SPEC)["brightness"].numpy()
    choice = drawn["choice"].numpy()
    for one, other in ((first, second), (first, outside), (first, choice), (second, choice)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 4 / np.sqrt(2000)


def test_stages_may_agree_on_another_shape_than_they_get():
    stage = stages.parse("one_of(center_crop(4, 4), random_crop(4, 4))")[0]
    assert not stage.keeps_shape
    assert (stage.spec(SPEC).height, stage.spec(SPEC).width) == (4, 4)

    @tf.function(input_signature=[SPEC.tensor, tf.TensorSpec([None], tf.uint64)])
    def traced(images, keys):
        result = stage.apply(images, stage.parameters(keys, SPEC))
        assert result.shape.as_list() == [None, 4, 4, 3]
        return result

    for count in (9, 1, 0):
        assert traced(images(count), keys(count)).shape == (count, 4, 4, 3)


def test_what_all_stages_keep_is_kept():
    rotation, flip, gamma = stages.parse("random_rotation(); random_flip(); gamma()")
    assert OneOf((rotation, flip)).commutes_with_rescale
    assert not OneOf((rotation, gamma)).commutes_with_rescale
    assert OneOf((rotation, gamma)).keeps_shape
    assert not OneOf((rotation, gamma)).relabels
    assert OneOf((rotation, stages.Mixup())).relabels


def test_labels_go_the_way_of_their_images():
    stage = OneOf((stages.Mixup(1.0), Solarize(256), stages.Cutmix(1.0)))
    drawn = stage.parameters(keys(64), SPEC)
    flat = tf.tile(tf.reshape(tf.range(64, dtype=tf.float32) / 64, [64, 1, 1, 1]), [1, 6, 5, 3])
    before = flat[:, 0, 0, 0].numpy()
    labels = stage.labels(flat[:, 0, 0, :1], drawn).numpy()[:, 0]
    mixed = stage.apply(flat, drawn).numpy().mean(axis=(1, 2, 3))
    np.testing.assert_allclose(labels, mixed, atol=1e-6)
    assert (labels != before).any()
    same = drawn["choice"].numpy() == 1
    np.testing.assert_array_equal(labels[same], before[same])


def test_a_list_by_name_or_place_says_the_same_as_stages_one_after_the_other():
    stage = OneOf((Posterize(4), Solarize(128)), (3, 1))
    for text in (
        "one_of(posterize(4), solarize(128), weights=(3, 1))",
        "one_of([posterize, solarize()], [3, 1])",
        "one_of(stages=(posterize(), solarize(),), weights=(3, 1))",
    ):
        assert stages.parse(text) == (stage,)
    assert stages.text((stage,)) == "one_of(posterize(), solarize(), weights=(3.0, 1.0))"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("one_of(posterize())", "at least two stages"),
        ("one_of()", "missing .* 'stages'"),
        ("one_of(posterize(), solarize(), weights=(1,))", "1 weights for 2 stages"),
        ("one_of(posterize(), solarize(), weights=(1, -1))", "weights are numbers from 0"),
        ("one_of(posterize(), solarize(), weights=(0, 0))", "weights are numbers from 0, not all of them 0"),
        ("one_of(posterize(), 3)", "'3' in .* is neither a stage"),
        ("one_of(posterize(), dilated())", "unknown stage 'dilated'"),
        ("one_of(posterize(), dilate(width=3))", "unknown argument of stage dilate 'width'"),
        ("one_of(posterize(), shuffle(9))", "one_of: shuffle sets the flow of all examples"),
    ],
)
def test_what_cannot_be_chosen_among_is_refused(text, complaint):
    with pytest.raises(UsageError, match=complaint):
        stages.parse(text)


def test_stages_that_do_not_agree_are_refused_by_name():
    with pytest.raises(UsageError, match="one_of: posterize gives .*, but center_crop gives .*: they must agree"):
        stages.parse("one_of(posterize(), center_crop(4, 4))")[0].spec(SPEC)
    with pytest.raises(UsageError, match="one_of: posterize gives .*, but rescale gives .*float32"):
        stages.parse("one_of(posterize(), rescale())")[0].spec(SPEC)
    with pytest.raises(UsageError, match="labels would be float32 .* or int64"):
        stages.parse("one_of(one_hot(3), posterize())")[0].label_spec(tf.TensorSpec([None], tf.int64))
