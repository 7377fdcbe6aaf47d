"""`tfhet.ray.stages` gives the pictures of a Pipeline, bit for bit; it needs no Ray."""

import numpy as np
import pytest

import tfhet.ray
from tfhet import Pipeline, SyntheticSource
from tfhet.errors import UsageError

CHAINS = (
    "random_flip(); rescale()",
    "random_crop(padding=2); color_jitter(); gaussian_blur()",
    "random_affine(); random_erasing(); normalize(0.5, 0.25); one_hot(10)",
    "randaugment(); rescale()",
)


def given(source: SyntheticSource) -> dict[str, np.ndarray]:
    """The examples of a source as they are before any stage, in the order of their ids."""
    batches = list(Pipeline(source, (), batch_size=16, shuffle_splits=False).dataset())
    names = ("image", "label", "id")
    whole = {name: np.concatenate([batch[name].numpy() for batch in batches]) for name in names}
    order = np.argsort(whole["id"])
    return {name: array[order] for name, array in whole.items()}


@pytest.mark.parametrize("chain", CHAINS)
def test_pictures_and_labels_are_those_of_a_pipeline_whatever_the_batch(chain):
    source = SyntheticSource(40, 4, (16, 16, 3))
    for epoch in (0, 3):
        expected = {}
        for batch in Pipeline(source, chain, batch_size=8, seed=5).dataset(epoch):
            rows = zip(batch["id"].numpy(), batch["image"].numpy(), batch["label"].numpy(), strict=True)
            expected.update({int(number): (image, label) for number, image, label in rows})
        columns = given(source)
        run = tfhet.ray.stages(chain, seed=5, epoch=epoch)
        for rows in (slice(0, 7), slice(7, 40)):
            found = run({name: array[rows] for name, array in columns.items()} | {"kept": np.arange(40)[rows]})
            assert found["kept"].tolist() == list(range(40))[rows]
            for number, image, label in zip(found["id"], found["image"], found["label"], strict=True):
                assert image.dtype == expected[int(number)][0].dtype
                np.testing.assert_array_equal(image, expected[int(number)][0])
                np.testing.assert_array_equal(label, expected[int(number)][1])
    assert len(expected) == 40


def test_columns_have_the_names_that_they_are_given():
    images = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    found = tfhet.ray.stages("invert()", image="picture")({"picture": images})
    assert list(found) == ["picture"]
    np.testing.assert_array_equal(found["picture"], 255 - images)


def test_files_are_decoded():
    import tensorflow as tf

    image = np.full((8, 8, 3), 77, np.uint8)
    files = np.array([tf.io.encode_png(image).numpy()] * 3, object)
    found = tfhet.ray.stages("decode(); resize(8, 8)")({"image": files})
    np.testing.assert_array_equal(found["image"], np.stack([image] * 3))


def test_what_does_not_fit_is_said():
    images = np.zeros((2, 4, 4, 3), np.uint8)
    with pytest.raises(UsageError, match="random_flip draws random numbers.*column `id`"):
        tfhet.ray.stages("random_flip(); rescale()")({"image": images})
    with pytest.raises(UsageError, match="no column 'image', only picture"):
        tfhet.ray.stages("invert()")({"picture": images})
    with pytest.raises(UsageError, match="unknown stage"):
        tfhet.ray.stages("inverted()")
    with pytest.raises(UsageError, match="changes labels"):
        tfhet.ray.stages("one_hot(10)")({"image": images})
