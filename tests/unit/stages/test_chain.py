"""What holds for every stage, and the AWS chain against the example as it is written."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from stage_images import addons, drawing, float32, noise, uint8

from tfhet import stages
from tfhet.stages import randomness

OWN = [
    kind
    for name in stages.names()
    if (kind := stages.get(name)).__module__.startswith("tfhet.") and "images" in kind.takes
]
WITH_ARGUMENTS = "probability(random_rotation(0.1), 0.5); one_of(posterize(2), color_jitter(), weights=(1, 3))"
STAGES = [
    *(kind() for kind in OWN if not any(field.default is dataclasses.MISSING for field in dataclasses.fields(kind))),
    *stages.parse(WITH_ARGUMENTS),
]
ALONE = [stage for stage in STAGES if not isinstance(stage, stages.WithPartner)]
SPECS = [uint8(16, 24), float32(0.0, 1.0, 24, 16, 1)]


def batch_of(spec: stages.ImageSpec, count: int) -> tf.Tensor:
    values = np.random.default_rng(4).uniform(spec.low, spec.high, (count, spec.height, spec.width, spec.channels))
    return tf.cast(values, spec.dtype)


def run(chain, images: tf.Tensor, spec: stages.ImageSpec, ids: tf.Tensor) -> tf.Tensor:
    for position, stage in enumerate(chain):
        keys = randomness.keys(0, stage.name, position, 0, ids)
        images, spec = stage.apply(images, stage.parameters(keys, spec)), stage.spec(spec)
    return images


@pytest.mark.parametrize("spec", SPECS, ids=["uint8", "float32"])
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_every_stage_satisfies_its_spec_and_flags(stage, spec):
    def applied(images, ids):
        return stage.apply(images, stage.parameters(randomness.keys(0, stage.name, 0, 0, ids), spec))

    if spec.dtype == "uint8":
        applied = tf.function(applied, input_signature=[spec.tensor, tf.TensorSpec([None], tf.int64)])
    promised = stage.spec(spec)
    for count in (5, 1, 0):
        out = applied(batch_of(spec, 5)[:count], tf.range(count, dtype=tf.int64))
        assert out.shape == (count, promised.height, promised.width, promised.channels)
        assert out.dtype.name == promised.dtype
        if count:
            assert out.numpy().min() >= promised.low - 1e-6
            assert out.numpy().max() <= promised.high + 1e-6
    if stage.keeps_shape:
        assert (promised.height, promised.width, promised.channels) == (spec.height, spec.width, spec.channels)
    if stage.keeps_range:
        assert (promised.dtype, promised.low, promised.high) == (spec.dtype, spec.low, spec.high)
    drawn = stage.parameters(randomness.keys(0, stage.name, 0, 0, tf.range(7, dtype=tf.int64)), spec)
    assert bool(drawn) == stage.random
    assert all(value.shape[0] == 7 for value in drawn.values())
    if stage.pointwise:
        images = batch_of(spec, 7)
        upside_down = stage.apply(images[:, ::-1], drawn)
        np.testing.assert_array_equal(upside_down, stage.apply(images, drawn)[:, ::-1])


@pytest.mark.parametrize("spec", SPECS, ids=["uint8", "float32"])
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_arrays_and_tensors_are_alike(stage, spec):
    images, ids = batch_of(spec, 6), np.arange(6)
    ours = stage.parameters(randomness.keys(0, stage.name, 0, 0, ids), spec)
    theirs = stage.parameters(randomness.keys(0, stage.name, 0, 0, tf.constant(ids)), spec)
    assert list(ours) == list(theirs)
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], strict=True)
    made = stage.apply(images.numpy(), ours)
    assert isinstance(made, np.ndarray)
    np.testing.assert_array_equal(made, stage.apply(images, theirs), strict=True)


@pytest.mark.parametrize("stage", [s for s in STAGES if s.commutes_with_rescale], ids=lambda stage: stage.name)
def test_commuting_stage_trades_places_with_a_rescale(stage):
    spec, rescale = SPECS[0], stages.Rescale(1 / 127.5, -1.0)
    images, ids = batch_of(spec, 8), tf.range(8, dtype=tf.int64)
    drawn = stage.parameters(randomness.keys(0, stage.name, 0, 0, ids), spec)
    before = stage.apply(rescale.apply(images, {}), drawn).numpy()
    behind = rescale.apply(stage.apply(images, drawn), {}).numpy()
    assert np.abs(before - behind).max() <= 1 / 127.5 + 1e-5


@pytest.mark.parametrize("stage", ALONE, ids=lambda stage: stage.name)
def test_image_is_the_same_in_any_batch(stage):
    spec = SPECS[0]
    images, ids = batch_of(spec, 9), tf.constant([5, 3, 1 << 32, 8, 2, 0, 9 << 32 | 4, 7, 6], tf.int64)
    together = run([stage], images, spec, ids).numpy()
    mixed = np.random.default_rng(0).permutation(9)
    shuffled = run([stage], tf.gather(images, mixed), spec, tf.gather(ids, mixed)).numpy()
    alone = np.concatenate([run([stage], images[i : i + 1], spec, ids[i : i + 1]).numpy() for i in range(9)])
    for other in (shuffled, alone[mixed]):
        np.testing.assert_array_equal(together[mixed], other)


# fmt: off
SIZES_LATER = (
    "random_brightness", "random_contrast", "random_saturation", "random_hue", "color_jitter", "posterize",
    "solarize", "equalize", "autocontrast", "invert", "gamma", "gaussian_noise", "sharpen", "grayscale", "erode",
    "normalize", "cast", "random_erasing", "cutout",
)
# fmt: on


@pytest.mark.parametrize("text", [*SIZES_LATER, "center_crop(4, 6)", "pad(1, 2, 3, 4, value=255)", "resize(6, 5)"])
def test_size_may_be_unknown_until_it_runs(text):
    (stage,) = stages.parse(text)
    spec, ids = uint8(None, None), tf.range(3, dtype=tf.int64)

    @tf.function(input_signature=[spec.tensor])
    def traced(images):
        return stage.apply(images, stage.parameters(randomness.keys(0, stage.name, 0, 0, ids), spec))

    assert traced.get_concrete_function().output_shapes.is_compatible_with(stage.spec(spec).tensor.shape)
    batch = noise(height=13, width=7, count=3)
    known = stage.apply(batch, stage.parameters(randomness.keys(0, stage.name, 0, 0, ids), uint8(13, 7)))
    np.testing.assert_array_equal(traced(batch), known)


def test_aws_chain_equals_the_example_for_its_draws():
    filtered = addons().image.gaussian_filter2d
    spec, count = uint8(32, 32), 24
    images, ids = batch_of(spec, count), tf.range(count, dtype=tf.int64)
    chain = stages.chain("aws-cifar")
    drawn = {}
    for position, stage in enumerate(chain):
        drawn.update(stage.parameters(randomness.keys(0, stage.name, position, 0, ids), spec))

    rotate, zoom = tf.keras.layers.RandomRotation(0.1), tf.keras.layers.RandomZoom(0.1)
    written = []
    for index in range(count):
        image = tf.expand_dims(images[index], 0)
        image = tf.nn.dilation2d(image, tf.zeros([3, 3, 3], tf.uint8), [1] * 4, "SAME", "NHWC", [1] * 4)[0]
        image = filtered(image, filter_shape=(11, 11), sigma=0.8)
        image = tf.keras.layers.Rescaling(1.0 / 255)(image)
        image = tf.image.flip_left_right(image) if drawn["flip_horizontal"][index] else image
        for layer, value in ((rotate, drawn["angle"][index]), (zoom, drawn["zoom"][index])):
            image = drawing(layer, value.numpy())(image[tf.newaxis], training=True)[0]
        written.append(image.numpy())

    ours = run(chain, images, spec, ids).numpy()
    assert np.abs(ours - np.stack(written)).max() <= 1 / 255 + 1e-5
    assert np.abs(ours - np.stack(written)).mean() < 1e-5
