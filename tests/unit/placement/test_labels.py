from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.placement.declaration import label_spec, relabelled
from tfhet.stages import ImageSpec, PlacedStage, parse, randomness

SPEC = ImageSpec(6, 4, 3, "uint8", 0.0, 255.0)
FEATURES = {"image": SPEC.tensor, "label": tf.TensorSpec([None], tf.int64)}


def placed(text: str) -> list[PlacedStage]:
    return [PlacedStage(stage, position, SPEC) for position, stage in enumerate(parse(text))]


def test_label_spec_follows_the_stages():
    assert label_spec(FEATURES, placed("random_flip(); posterize()")) == FEATURES["label"]
    assert label_spec(FEATURES, placed("random_flip(); one_hot(5); mixup(); cutmix()")) == tf.TensorSpec(
        [None, 5], tf.float32
    )
    assert label_spec({"image": SPEC.tensor}, placed("random_flip()")) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("cutmix(); one_hot(3)", "cutmix: .*int64"),
        ("one_hot(3); one_hot(3)", "one_hot: .*float32"),
        ("probability(mixup(), 0.5)", "mixup: .*int64"),
    ],
)
def test_stages_that_do_not_fit_labels_are_refused(text, complaint):
    with pytest.raises(UsageError, match=complaint):
        label_spec(FEATURES, placed(text))


def test_relabelling_without_labels_is_refused():
    with pytest.raises(UsageError, match="one_hot .*'label', only image"):
        label_spec({"image": SPEC.tensor}, placed("random_flip(); one_hot(3)"))


def test_labels_change_with_the_images_draws():
    chain = placed("one_hot(4); random_flip(); mixup(1.0); cutmix()")
    drawn = [
        each.stage.parameters(randomness.keys(1, each.stage.name, each.declared, 0, tf.range(6, dtype=tf.int64)), SPEC)
        for each in chain
    ]
    numbers = tf.constant([0, 3, 1, 2, 2, 0], tf.int64)
    labels = relabelled(numbers, chain, drawn)
    expected = np.eye(4)[numbers]
    for parameters in (drawn[2], drawn[3]):
        share = parameters["share"].numpy()[:, None]
        expected = (1 - share) * expected + share * np.roll(expected, -1, axis=0)
    np.testing.assert_allclose(labels, expected, atol=1e-6)
    assert relabelled(numbers, placed("random_flip()"), [{}]) is numbers
