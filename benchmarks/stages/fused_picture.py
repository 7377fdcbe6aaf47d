"""The distance between the picture that a fused, compiled chain makes and the one that its stages make by themselves,
each as an operation of stock TensorFlow.

Geometric stages stay one sampling in the reference, too, of stock TensorFlow: several would be softer. A stage with a
threshold, such as RandAugment's solarize, makes many levels of the one by which decoded images differ here and there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np

from benchmarks.stages.forms import forms, shaped
from tfhet.bench.chain import Course, work_of
from tfhet.native import SWITCH
from tfhet.record import Figure

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.placement import Pipeline
    from tfhet.stages.fusion import Step

IMAGES = 64
"""Images of the first batch that are compared, at most."""


def figures_of(course: Course) -> dict[str, Figure]:
    """The largest difference in any form of the chain, and how many values in a million are more than a level apart."""
    apart = np.concatenate([levels_apart(shaped(course.pipeline, form)).ravel() for form in forms(course.pipeline)])
    prefix = f"stages.{course.name}"
    beyond = 1e6 * float((apart > 1.01).mean())
    return {
        f"{prefix}.fused_apart": Figure.single(float(apart.max()), unit="levels"),
        f"{prefix}.fused_apart_beyond_one": Figure.single(beyond, unit="ppm"),
    }


def levels_apart(pipeline: Pipeline, count: int = IMAGES) -> np.ndarray:
    """Grey levels between the two pictures, float32 [images, height, width, channels]."""
    import tensorflow as tf

    from tfhet.placement import one_epoch, steps

    together = steps(pipeline)
    contents = next(iter(one_epoch(pipeline.with_stages(()))))
    images, ids = contents["image"][:count], contents["id"][:count]
    fused = _run(pipeline, together, images, ids)
    with mock.patch.dict(os.environ, {SWITCH: "off"}):
        apart = _run(pipeline, [part for step in together for part in _parts(step)], images, ids)
    return np.abs(fused - tf.cast(apart, tf.float32).numpy()) * _levels(pipeline)


def _run(pipeline: Pipeline, steps: Sequence[Step], images: tf.Tensor, ids: tf.Tensor) -> np.ndarray:
    import tensorflow as tf

    for step in steps:
        images = work_of(pipeline, step)(images, ids)
    made: np.ndarray = tf.cast(images, tf.float32).numpy()
    return made


def _parts(step: Step) -> Iterator[Step]:
    from tfhet.stages.fusion import Sampling, Step as Alone

    if isinstance(step, Sampling):
        yield step
        return
    for placed, spec in zip(step.stages, step.inputs, strict=True):
        yield Alone((placed,), spec)


def _levels(pipeline: Pipeline) -> np.ndarray:
    """Grey levels in one unit of the result, of each channel."""
    from tfhet.stages import Normalize, Rescale

    levels = np.ones(1, np.float32)
    for stage in pipeline.stages:
        if isinstance(stage, Normalize):
            levels = levels * 255.0 * np.array(stage.std, np.float32)
        elif isinstance(stage, Rescale):
            levels = levels / stage.scale
    return levels
