"""Whole chains: what holds for every stage, and the AWS chain against the example as it is written."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
import tensorflow as tf

from tfhet import stages
from tfhet.stages import ImageSpec, randomness

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
SPECS = [ImageSpec(16, 24, 3, "uint8", 0.0, 255.0), ImageSpec(24, 16, 1, "float32", 0.0, 1.0)]


def batch_of(spec: ImageSpec, count: int) -> tf.Tensor:
    values = np.random.default_rng(4).uniform(spec.low, spec.high, (count, spec.height, spec.width, spec.channels))
    return tf.cast(values, spec.dtype)


def run(chain, images: tf.Tensor, spec: ImageSpec, ids: tf.Tensor, seed: int = 0) -> tf.Tensor:
    for position, stage in enumerate(chain):
        keys = randomness.keys(seed, stage.name, position, 0, ids)
        images, spec = stage.apply(images, stage.parameters(keys, spec)), stage.spec(spec)
    return images


@pytest.mark.parametrize("spec", SPECS, ids=["uint8", "float32"])
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_every_stage_keeps_its_promise_on_a_symbolic_batch_of_many_one_and_no_images(stage, spec):
    @tf.function(input_signature=[spec.tensor, tf.TensorSpec([None], tf.int64)])
    def traced(images, ids):
        return stage.apply(images, stage.parameters(randomness.keys(0, stage.name, 0, 0, ids), spec))

    promised = stage.spec(spec)
    for count in (5, 1, 0):
        out = traced(batch_of(spec, 5)[:count], tf.range(count, dtype=tf.int64))
        assert out.shape == (count, promised.height, promised.width, promised.channels)
        assert out.dtype.name == promised.dtype
        if count:
            assert out.numpy().min() >= promised.low - 1e-6
            assert out.numpy().max() <= promised.high + 1e-6
    if stage.keeps_shape:
        assert (promised.height, promised.width, promised.channels) == (spec.height, spec.width, spec.channels)
    if stage.keeps_range:
        assert (promised.dtype, promised.low, promised.high) == (spec.dtype, spec.low, spec.high)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_stage_draws_exactly_when_it_says_that_it_is_random(stage):
    keys = randomness.keys(0, stage.name, 0, 0, tf.range(7, dtype=tf.int64))
    drawn = stage.parameters(keys, SPECS[0])
    assert bool(drawn) == stage.random
    assert all(value.shape[0] == 7 for value in drawn.values())


@pytest.mark.parametrize("stage", [s for s in STAGES if s.commutes_with_rescale], ids=lambda stage: stage.name)
def test_a_stage_that_says_so_may_trade_places_with_a_rescale(stage):
    spec, rescale = SPECS[0], stages.Rescale(1 / 127.5, -1.0)
    images, ids = batch_of(spec, 8), tf.range(8, dtype=tf.int64)
    drawn = stage.parameters(randomness.keys(0, stage.name, 0, 0, ids), spec)
    before = stage.apply(rescale.apply(images, {}), drawn).numpy()
    behind = rescale.apply(stage.apply(images, drawn), {}).numpy()
    assert np.abs(before - behind).max() <= 1 / 127.5 + 1e-5


@pytest.mark.parametrize("stage", ALONE, ids=lambda stage: stage.name)
def test_an_image_comes_out_the_same_alone_and_in_any_batch(stage):
    spec = SPECS[0]
    images, ids = batch_of(spec, 9), tf.constant([5, 3, 1 << 32, 8, 2, 0, 9 << 32 | 4, 7, 6], tf.int64)
    together = run([stage], images, spec, ids).numpy()
    mixed = np.random.default_rng(0).permutation(9)
    shuffled = run([stage], tf.gather(images, mixed), spec, tf.gather(ids, mixed)).numpy()
    alone = np.concatenate([run([stage], images[i : i + 1], spec, ids[i : i + 1]).numpy() for i in range(9)])
    # Matrix products may add in another order for another batch size: one grey level at most, and in few places.
    for other in (shuffled, alone[mixed]):
        differences = np.abs(np.float32(together[mixed]) - np.float32(other))
        assert differences.max() <= 1.0
        assert (differences > 1e-5).mean() < 1e-3


def test_two_stages_of_one_name_draw_differently_for_one_example():
    ids = tf.range(1000, dtype=tf.int64)
    first, second = (
        stages.RandomRotation().parameters(randomness.keys(0, "random_rotation", position, 0, ids), SPECS[0])["angle"]
        for position in (0, 1)
    )
    assert not (first.numpy() == second.numpy()).any()
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(1000)


def test_rotation_and_zoom_of_one_example_are_independent():
    ids = tf.range(1000, dtype=tf.int64)
    angle = stages.RandomRotation().parameters(randomness.keys(0, "random_rotation", 4, 0, ids), SPECS[0])["angle"]
    zoom = stages.RandomZoom().parameters(randomness.keys(0, "random_zoom", 5, 0, ids), SPECS[0])["zoom"]
    assert abs(np.corrcoef(angle, zoom)[0, 1]) < 4 / np.sqrt(1000)


@pytest.mark.skipif(getattr(tf.keras, "__version__", "2") >= "3", reason="Keras 3 layers draw elsewhere")
def test_the_aws_chain_gives_the_images_of_the_example_as_written_for_the_same_draws():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        addons = pytest.importorskip("tensorflow_addons")
    spec, count = ImageSpec(32, 32, 3, "uint8", 0.0, 255.0), 24
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
        image = addons.image.gaussian_filter2d(image, filter_shape=(11, 11), sigma=0.8)
        image = tf.keras.layers.Rescaling(1.0 / 255)(image)
        image = tf.image.flip_left_right(image) if drawn["flip_horizontal"][index] else image
        for layer, value in ((rotate, drawn["angle"][index]), (zoom, drawn["zoom"][index])):
            layer._random_generator.random_uniform = lambda shape, minval, maxval, value=value: tf.fill(shape, value)
            image = layer(image[tf.newaxis], training=True)[0]
        written.append(image.numpy())

    ours = run(chain, images, spec, ids).numpy()
    assert np.abs(ours - np.stack(written)).max() <= 1 / 255 + 1e-5
    assert np.abs(ours - np.stack(written)).mean() < 1e-5
