"""Labels as a row of probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages.registry import register
from tfhet.stages.stage import Stage


@register("one_hot")
@dataclass(frozen=True)
class OneHot(Stage):
    """Class numbers become float32 [batch, classes]: 1 at the class and 0 elsewhere. Images pass as they are.

    A label below 0 or from `classes` is an error when it is met.
    """

    classes: int = 10
    """How many there are, from 2."""
    smoothing: float = 0.0
    """This much is spread evenly over all classes (Szegedy et al., arXiv:1512.00567). From 0 to below 1."""

    takes: ClassVar[tuple[str, ...]] = ("encoded", "ragged", "images")
    commutes_with_rescale: ClassVar[bool] = True
    relabels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes < 2 or not 0.0 <= self.smoothing < 1.0:
            self.refuse(f"classes is at least 2, smoothing from 0 to below 1; not {self.classes} and {self.smoothing}")

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return images

    def label_spec(self, spec: tf.TensorSpec) -> tf.TensorSpec:
        if not spec.dtype.is_integer or spec.shape.rank != 1:
            self.refuse(f"wants class numbers, integers [batch], not {spec.dtype.name} {spec.shape}")
        return tf.TensorSpec([None, self.classes], tf.float32)

    def labels(self, labels: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        numbers = tf.cast(labels, tf.int64)
        fits = tf.reduce_all((numbers >= 0) & (numbers < self.classes))
        said = f"stage {self.name}: a label is not from 0 to {self.classes - 1}"
        # A row of zeros would be what tf.one_hot makes of it.
        with tf.control_dependencies([tf.debugging.Assert(fits, [said, numbers], summarize=16)]):
            even = self.smoothing / self.classes
            return tf.one_hot(numbers, self.classes, on_value=1.0 - self.smoothing + even, off_value=even)
