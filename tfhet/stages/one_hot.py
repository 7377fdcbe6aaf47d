"""Turns class numbers into rows of probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import tensorflow as tf

from tfhet.stages.registry import register
from tfhet.stages.stage import Stage, Within


@register("one_hot")
@dataclass(frozen=True)
class OneHot(Stage):
    """Turns class numbers into float32 [batch, classes]: 1 at the class and 0 elsewhere. Images stay unchanged.

    A label that is not from 0 to classes - 1 raises an error when it is read.
    """

    classes: Annotated[int, Within(2)] = 10
    """Number of classes, from 2."""
    smoothing: Annotated[float, Within(0, 1, below=True)] = 0.0
    """Probability that is spread evenly over all classes (Szegedy et al., arXiv:1512.00567). From 0 to below 1."""

    takes: ClassVar[tuple[str, ...]] = ("encoded", "ragged", "images")
    commutes_with_rescale: ClassVar[bool] = True
    relabels: ClassVar[bool] = True

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return images

    def label_spec(self, spec: tf.TensorSpec) -> tf.TensorSpec:
        if not spec.dtype.is_integer or spec.shape.rank != 1:
            self.refuse(f"needs class numbers, integers [batch], not {spec.dtype.name} {spec.shape}")
        return tf.TensorSpec([None, self.classes], tf.float32)

    def labels(self, labels: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        numbers = tf.cast(labels, tf.int64)
        fits = tf.reduce_all((numbers >= 0) & (numbers < self.classes))
        message = f"stage {self.name}: a label is not from 0 to {self.classes - 1}"
        # tf.one_hot would make a row of zeros of it.
        with tf.control_dependencies([tf.debugging.Assert(fits, [message, numbers], summarize=16)]):
            even = self.smoothing / self.classes
            return tf.one_hot(numbers, self.classes, on_value=1.0 - self.smoothing + even, off_value=even)
