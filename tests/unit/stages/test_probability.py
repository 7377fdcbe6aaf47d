from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet import stages
from tfhet.errors import UsageError
from tfhet.stages import GaussianBlur, ImageSpec, Invert, Probability, RandomRotation, randomness

SPEC = ImageSpec(8, 9, 3, "uint8", 0.0, 255.0)


def images(count: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(5).integers(0, 256, (count, 8, 9, 3)).astype(np.uint8))


def keys(count: int) -> tf.Tensor:
    return randomness.keys(1, "probability", 3, 0, tf.range(count, dtype=tf.int64))


@pytest.mark.parametrize("stage", [Invert(), GaussianBlur(5, 1.0), RandomRotation(0.2)], ids=lambda stage: stage.name)
def test_chosen_images_go_through_the_stage_and_the_others_stay_as_they_are(stage):
    some = Probability(stage, 0.4)
    drawn = some.parameters(keys(30), SPEC)
    ours, chosen = some.apply(images(30), drawn).numpy(), drawn["choice"].numpy() == 1
    own = {name.split("/")[1]: value for name, value in drawn.items() if "/" in name}
    all_of_them = stage.apply(images(30), own).numpy()
    assert 0 < chosen.sum() < 30
    assert (ours[~chosen] == images(30).numpy()[~chosen]).all()
    # Matrix products may add in another order for another batch size.
    assert np.abs(np.int32(ours[chosen]) - all_of_them[chosen]).max() <= 1
    assert (ours[chosen] != images(30).numpy()[chosen]).any()


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_images_are_chosen_with_the_probability(p):
    chosen = Probability(Invert(), p).parameters(keys(20_000), SPEC)["choice"].numpy()
    assert abs(chosen.mean() - p) <= 4 * np.sqrt(p * (1 - p) / 20_000)


def test_a_choice_inside_a_choice_is_drawn_apart():
    nested = Probability(Probability(Invert(), 0.5), 0.5)
    drawn = nested.parameters(keys(5000), SPEC)
    assert set(drawn) == {"choice", "probability:1/choice"}
    outer, inner = drawn["choice"].numpy(), drawn["probability:1/choice"].numpy()
    assert abs(np.corrcoef(outer, inner)[0, 1]) < 4 / np.sqrt(5000)
    inverted = nested.apply(images(50), {name: value[:50] for name, value in drawn.items()}).numpy()
    both = (outer & inner)[:50] == 1
    expected = np.where(both[:, None, None, None], 255 - images(50).numpy(), images(50).numpy())
    assert (inverted == expected).all()


def test_text_reads_back():
    written = "probability(stage=gaussian_blur(size=5, sigma=1.0), p=0.25)"
    assert stages.parse("probability(gaussian_blur(5, 1), 0.25)") == (Probability(GaussianBlur(5, 1.0), 0.25),)
    assert stages.text(stages.parse(written)) == written
    assert stages.text((Probability(Probability(Invert()), 0.1),)) == (
        "probability(stage=probability(stage=invert()), p=0.1)"
    )


def test_the_shape_is_known_when_the_graph_is_built():
    @tf.function(input_signature=[SPEC.tensor, tf.TensorSpec([None], tf.uint64)])
    def traced(images, keys):
        stage = Probability(Invert(), 0.5)
        result = stage.apply(images, stage.parameters(keys, SPEC))
        assert result.shape.as_list() == [None, 8, 9, 3]
        return result

    for count in (4, 1, 0):
        assert traced(images(count), keys(count)).shape == (count, 8, 9, 3)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("probability()", "missing .* 'stage'"),
        ("probability(0.5)", "'0.5' in .* is neither a stage"),
        ("probability(invert(), 1.5)", "p is from 0 to 1, not 1.5"),
        ("probability((invert(), posterize()), 0.5)", r"chooses among stages like posterize\(4\)"),
        ("probability(batch(8), 0.5)", "batch sets the flow of all examples"),
        ("probability(invert(), p=n)", "'n' is not a literal value"),
    ],
)
def test_what_is_no_stage_or_no_probability_is_refused(text, complaint):
    with pytest.raises(UsageError, match=complaint):
        stages.parse(text)


def test_a_stage_that_changes_shape_or_range_is_refused():
    with pytest.raises(UsageError, match="leaving an image unchanged gives .*, but rescale gives .*: they must agree"):
        stages.parse("probability(rescale())")[0].spec(SPEC)
    with pytest.raises(UsageError, match="but center_crop gives"):
        stages.parse("probability(center_crop(4, 4))")[0].spec(SPEC)


def test_images_of_many_sizes_are_refused_as_the_stage_inside_refuses_them():
    ragged = ImageSpec(None, None, 3, "uint8", 0.0, 255.0, ragged=True)
    with pytest.raises(UsageError, match="stage invert: the images differ in size"):
        Probability(Invert()).spec(ragged)
