"""one_of and probability: which stage each image gets, and with which draws."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from stage_images import draws, keys, noise, uint8

from tfhet import stages
from tfhet.stages import GaussianBlur, Invert, OneOf, Posterize, Probability, RandomBrightness, RandomRotation, Solarize

SPEC = uint8(8, 9)
THREE = OneOf((Posterize(2), RandomBrightness(0.4), Solarize(100)), weights=(1, 2, 5))


def images(count: int) -> tf.Tensor:
    return noise(height=8, width=9, count=count)


def test_each_image_goes_through_its_drawn_stage():
    drawn = draws(THREE, 40, SPEC)
    ours = THREE.apply(images(40), drawn).numpy()
    own = [{}, {"brightness": drawn["random_brightness:1/brightness"]}, {}]
    each = [stage.apply(images(40), some).numpy() for stage, some in zip(THREE.stages, own, strict=True)]
    choice = drawn["choice"].numpy()
    assert set(choice) == {0, 1, 2}
    for index in range(40):
        np.testing.assert_array_equal(ours[index], each[choice[index]][index])


@pytest.mark.parametrize("stage", [Invert(), GaussianBlur(5, 1.0), RandomRotation(0.2)], ids=lambda stage: stage.name)
def test_images_that_are_not_chosen_stay(stage):
    some = Probability(stage, 0.4)
    drawn = draws(some, 30, SPEC)
    ours, chosen, before = some.apply(images(30), drawn).numpy(), drawn["choice"].numpy() == 1, images(30).numpy()
    own = {name.split("/")[1]: value for name, value in drawn.items() if "/" in name}
    assert 0 < chosen.sum() < 30
    np.testing.assert_array_equal(ours[~chosen], before[~chosen])
    np.testing.assert_array_equal(ours[chosen], stage.apply(images(30), own).numpy()[chosen])
    assert (ours[chosen] != before[chosen]).any()


@pytest.mark.parametrize(
    ("stage", "shares"),
    [
        (THREE, (1 / 8, 2 / 8, 5 / 8)),
        (OneOf(THREE.stages), (1 / 3, 1 / 3, 1 / 3)),
        (OneOf(THREE.stages, weights=(0, 1, 0)), (0, 1, 0)),
        *((Probability(Invert(), p), (1 - p, p)) for p in (0.0, 0.1, 0.5, 0.9, 1.0)),
    ],
)
def test_choice_follows_the_weights(stage, shares):
    choice = draws(stage, 20_000, SPEC)["choice"].numpy()
    found = np.bincount(choice, minlength=len(shares)) / 20_000
    assert (np.abs(found - shares) <= 4 * np.sqrt(np.multiply(shares, np.subtract(1, shares)) / 20_000)).all()


def test_held_stages_draw_independently():
    twice = OneOf((RandomBrightness(0.4), RandomBrightness(0.4)))
    drawn = draws(twice, 2000, SPEC)
    inside = [drawn[f"random_brightness:{at}/brightness"] for at in (0, 1)]
    outside = RandomBrightness(0.4).parameters(keys(twice, 2000), SPEC)["brightness"]
    nested = draws(Probability(Probability(Invert(), 0.5), 0.5), 2000, SPEC)
    assert set(nested) == {"choice", "probability:1/choice"}
    for rows in ([*inside, drawn["choice"]], [inside[0], outside], list(nested.values())):
        assert np.abs(np.corrcoef(rows) - np.eye(len(rows))).max() < 4 / np.sqrt(2000)


def test_held_stages_may_change_the_shape():
    (stage,) = stages.parse("one_of(center_crop(4, 4), random_crop(4, 4))")
    assert not stage.keeps_shape
    assert (stage.spec(SPEC).height, stage.spec(SPEC).width) == (4, 4)

    @tf.function(input_signature=[SPEC.tensor, tf.TensorSpec([None], tf.uint64)])
    def traced(images, keys):
        result = stage.apply(images, stage.parameters(keys, SPEC))
        assert result.shape.as_list() == [None, 4, 4, 3]
        return result

    for count in (9, 1, 0):
        assert traced(images(count), keys(stage, count)).shape == (count, 4, 4, 3)


def test_properties_of_all_held_stages_are_kept():
    rotation, flip, gamma = stages.parse("random_rotation(); random_flip(); gamma()")
    assert OneOf((rotation, flip)).commutes_with_rescale
    assert not OneOf((rotation, gamma)).commutes_with_rescale
    assert OneOf((rotation, gamma)).keeps_shape
    assert not OneOf((rotation, gamma)).relabels
    assert OneOf((rotation, stages.Mixup())).relabels


def test_labels_follow_their_images():
    stage = OneOf((stages.Mixup(1.0), Solarize(256), stages.Cutmix(1.0)))
    drawn = draws(stage, 64, SPEC)
    flat = tf.tile(tf.reshape(tf.range(64, dtype=tf.float32) / 64, [64, 1, 1, 1]), [1, 8, 9, 3])
    before = flat[:, 0, 0, 0].numpy()
    labels = stage.labels(flat[:, 0, 0, :1], drawn).numpy()[:, 0]
    np.testing.assert_allclose(labels, stage.apply(flat, drawn).numpy().mean(axis=(1, 2, 3)), atol=1e-6)
    same = drawn["choice"].numpy() == 1
    assert (labels != before).any() and (labels[same] == before[same]).all()


def test_held_stages_are_read_as_arguments_or_list():
    stage = OneOf((Posterize(4), Solarize(128)), (3, 1))
    for text in (
        "one_of(posterize(4), solarize(128), weights=(3, 1))",
        "one_of([posterize, solarize()], [3, 1])",
        "one_of(stages=(posterize(), solarize(),), weights=(3, 1))",
        "one_of(posterize(), solarize(), weights=(3.0, 1.0))",
    ):
        assert stages.parse(text) == (stage,)
    assert stages.text((stage,)) == "one_of(posterize(), solarize(), weights=(3.0, 1.0))"
    assert stages.text((Probability(Probability(Invert()), 0.1),)) == (
        "probability(stage=probability(stage=invert()), p=0.1)"
    )
