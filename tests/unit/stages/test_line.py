from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings, strategies as st

from tfhet import native
from tfhet.stages import (
    Autocontrast,
    Cast,
    ImageSpec,
    Invert,
    Normalize,
    RandomBrightness,
    RandomContrast,
    Rescale,
    randomness,
)
from tfhet.stages.line import Line, apply_line

LEVELS = ImageSpec(9, 7, 3, "uint8", 0.0, 255.0)
UNIT = ImageSpec(9, 7, 3, "float32", 0.0, 1.0)
STAGES = [
    Rescale(1 / 127.5, -1.0),
    Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    Cast("float32"),
    Cast("uint8"),
    Invert(),
    RandomBrightness(0.5),
    RandomContrast(0.2, 3.0),
    Autocontrast(),
]


def batch_of(spec: ImageSpec, count: int = 4) -> tf.Tensor:
    size = (count, spec.height, spec.width, spec.channels)
    return tf.cast(np.random.default_rng(1).uniform(spec.low, spec.high * 0.8, size), spec.dtype)


def by_definition(values: np.ndarray, line: Line) -> np.ndarray:
    parts = (line.scale, line.offset, line.low, line.high)
    scale, offset, low, high = (part.numpy().astype(np.float64)[:, np.newaxis, np.newaxis] for part in parts)
    return np.minimum(np.maximum(scale * values + offset, low), high)


@pytest.mark.parametrize("spec", [LEVELS, UNIT], ids=["uint8", "float32"])
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_stage_equals_its_line_but_for_rounding(stage, spec, backend):
    images = batch_of(spec)
    drawn = stage.parameters(randomness.keys(0, stage.name, 0, 0, tf.range(4, dtype=tf.int64)), spec)
    assert stage.measures == bool(stage.measured(images))
    line = stage.line({**drawn, **stage.measured(images)}, spec)
    result = stage.apply(images, drawn)
    exact = by_definition(np.float64(images), line)
    within = 0.5 + 1e-3 if result.dtype == tf.uint8 else 1e-5 * max(1.0, np.abs(exact).max())
    assert np.abs(result.numpy() - exact).max() <= within


def test_numbers_vectors_and_matrices_make_a_line():
    line = Line.of(2.0, [1.0, 2.0, 3.0], np.zeros([4, 1]))
    assert [part.shape for part in (line.scale, line.offset, line.low, line.high)] == [(1, 1), (1, 3), (4, 1), (1, 1)]
    line = Line.of(tf.ones([4]), 2.0, per_image=True)
    assert [part.shape for part in (line.scale, line.offset, line.low)] == [(4, 1), (1, 1), (1, 1)]
    assert all(part.dtype == tf.float32 for part in (line.scale, line.offset, line.low, line.high))


ENDS = st.one_of(st.just(np.inf), st.floats(0, 50, width=16))
LINES = st.builds(
    lambda scale, offset, middle, down, up: Line.of(scale, offset, middle - down, middle + up),
    st.one_of(st.just(0.0), st.floats(-4, 4, width=16)),
    st.floats(-50, 50, width=16),
    st.floats(-20, 20, width=16),
    ENDS,
    ENDS,
)


@settings(max_examples=60)
@given(st.lists(LINES, min_size=2, max_size=4), st.lists(st.floats(-100, 100, width=16), min_size=1, max_size=9))
def test_lines_in_a_row_are_one_line(lines, values):
    composed, exact = lines[0], np.reshape(np.float64(values), [-1, 1, 1, 1])
    for line in lines[1:]:
        composed = composed.then(line)
    for line in lines:
        exact = by_definition(exact, line)
    assert (composed.low.numpy() <= composed.high.numpy()).all()
    np.testing.assert_allclose(
        by_definition(np.reshape(np.float64(values), [-1, 1, 1, 1]), composed), exact, atol=0.1, rtol=1e-4
    )


def test_scale_may_exchange_or_remove_the_ends():
    turned = Line.of(low=0.0).then(Line.of(-2.0, 1.0))
    assert (turned.low.numpy().item(), turned.high.numpy().item()) == (-np.inf, 1.0)
    flat = Line.of(3.0, 1.0).then(Line.of(0.0, 7.0))
    assert [part.numpy().item() for part in (flat.scale, flat.offset, flat.low, flat.high)] == [0.0, 7.0, 7.0, 7.0]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_line_keeps_the_shape_in_a_graph(count, backend):
    @tf.function(input_signature=[LEVELS.tensor])
    def traced(images):
        result = apply_line(images, Line.of([1.0, 2.0, 3.0]), tf.float32)
        assert result.shape.as_list() == [None, 9, 7, 3]
        return result

    assert traced(batch_of(LEVELS, count)).shape == (count, 9, 7, 3)


RNG = np.random.default_rng(1)
needs_compiler = pytest.mark.skipif(not native.available("tone"), reason="compiled ops cannot be built here")


@needs_compiler
@settings(max_examples=60)
@given(
    st.tuples(st.integers(0, 3), st.integers(1, 50), st.integers(1, 50), st.integers(1, 5)),
    st.booleans(),
    st.booleans(),
    st.sampled_from([tf.uint8, tf.float32]),
    st.sampled_from([tf.uint8, tf.float32]),
)
def test_lines_equal_the_plain_ones(plainly, shape, by_image, by_channel, dtype, to):
    images = tf.cast(RNG.uniform(0, 256, shape), dtype)
    size = (shape[0] if by_image else 1, shape[3] if by_channel else 1)
    line = Line.of(*(RNG.uniform(low, high, size) for low, high in ((-2, 2), (-50, 300), (-20, 9), (90, 270))))
    assert (apply_line(images, line, to).numpy() == plainly(apply_line, images, line, to).numpy()).all()


@needs_compiler
def test_line_without_ends_keeps_all_values():
    images = tf.constant([[-np.inf, -1e30, 0.0, 1e30, np.inf, np.nan]])[..., tf.newaxis, tf.newaxis]
    for channels in (1, 3):
        line = Line.of(np.linspace(1, 2, channels))
        wide = tf.tile(images, [1, 1, 1, channels])
        np.testing.assert_array_equal(apply_line(wide, line, tf.float32), wide * line.scale)


@needs_compiler
def test_line_with_ends_clips_infinity_and_nan():
    images = tf.constant([-np.inf, -1e30, 1e30, np.inf, np.nan, 3.4], shape=[1, 6, 1, 1])
    assert apply_line(images, Line.of(), tf.uint8).numpy().ravel().tolist() == [0, 0, 255, 255, 0, 3]
    clipped = apply_line(images, Line.of(low=-1.0, high=2.0), tf.float32).numpy().ravel()
    assert clipped.tolist() == [-1.0, -1.0, 2.0, 2.0, -1.0, 2.0]
