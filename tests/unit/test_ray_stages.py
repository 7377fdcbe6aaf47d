"""`tfhet.ray.stages` makes the images of a Pipeline, bit for bit; it needs no Ray."""

import numpy as np
import pytest

import tfhet.ray
from tfhet import Pipeline, SyntheticSource
from tfhet.errors import UsageError
from tfhet.stages import Invert, Stage

GEOMETRIC = "random_crop(padding=2); random_flip(); random_affine(); random_erasing()"
CHAINS = {f"{GEOMETRIC}; color_jitter(); normalize(0.5, 0.25); one_hot(10)": 3, "randaugment(); rescale()": 0}
"""Chains, each with an epoch."""


def examples(source: SyntheticSource) -> dict[str, np.ndarray]:
    """The examples of a source before any stage, in the order of their ids."""
    batches = list(Pipeline(source, (), batch_size=16, shuffle_splits=False).dataset())
    names = ("image", "label", "id")
    whole = {name: np.concatenate([batch[name].numpy() for batch in batches]) for name in names}
    order = np.argsort(whole["id"])
    return {name: array[order] for name, array in whole.items()}


@pytest.mark.parametrize(("chain", "epoch"), CHAINS.items())
def test_images_equal_those_of_a_pipeline(chain, epoch):
    source = SyntheticSource(40, 4, (16, 16, 3))
    expected = {}
    for batch in Pipeline(source, chain, batch_size=8, seed=5).dataset(epoch):
        rows = zip(batch["id"].numpy(), batch["image"].numpy(), batch["label"].numpy(), strict=True)
        expected.update({int(number): (image, label) for number, image, label in rows})
    assert len(expected) == 40
    columns, run = examples(source), tfhet.ray.stages(chain, seed=5, epoch=epoch)
    for rows in (slice(0, 7), slice(7, 40)):
        found = run({name: array[rows] for name, array in columns.items()} | {"kept": np.arange(40)[rows]})
        assert found["kept"].tolist() == list(range(40))[rows]
        for number, image, label in zip(found["id"], found["image"], found["label"], strict=True):
            assert image.dtype == expected[int(number)][0].dtype
            np.testing.assert_array_equal(image, expected[int(number)][0])
            np.testing.assert_array_equal(label, expected[int(number)][1])


def test_columns_are_renamed():
    images = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    found = tfhet.ray.stages("invert()", image="picture")({"picture": images})
    assert list(found) == ["picture"]
    np.testing.assert_array_equal(found["picture"], 255 - images)


def test_own_stage_of_tensorflow_runs_between_compiled_ones():
    import tensorflow as tf

    class Darken(Stage):
        def apply(self, images, parameters):
            return tf.cast(tf.cast(images, tf.float32) * 0.5, images.dtype)

    images = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    found = tfhet.ray.stages((Invert(), Darken(), Invert()))({"image": images})
    np.testing.assert_array_equal(found["image"], 255 - (255 - images) // 2)


def test_files_are_decoded():
    import tensorflow as tf

    image = np.full((8, 8, 3), 77, np.uint8)
    files = np.array([tf.io.encode_png(image).numpy()] * 3, object)
    found = tfhet.ray.stages("decode(); resize(8, 8)")({"image": files})
    np.testing.assert_array_equal(found["image"], np.stack([image] * 3))


@pytest.mark.parametrize(
    ("chain", "columns", "named"),
    [
        ("random_flip(); rescale()", ("image",), "random_flip.*`id`"),
        ("invert()", ("picture",), "'image'.*picture"),
        ("inverted()", ("image",), "inverted"),
        ("one_hot(10)", ("image",), "label"),
    ],
)
def test_unusable_columns_are_refused(chain, columns, named):
    with pytest.raises(UsageError, match=named):
        tfhet.ray.stages(chain)(dict.fromkeys(columns, np.zeros((2, 4, 4, 3), np.uint8)))
