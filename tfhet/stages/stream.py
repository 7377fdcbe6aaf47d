"""Stages that say how examples flow, rather than what happens to an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import tensorflow as tf

from tfhet.stages.stage import Stage


class Stream(Stage):
    """A setting of the pipeline, written as a stage: `Pipeline(source, "shuffle(1000); random_flip()")` declares what
    `Pipeline(source, "random_flip()", shuffle=1000)` does. Images pass as they are."""

    takes: ClassVar[tuple[str, ...]] = ("encoded", "ragged", "images")
    setting: ClassVar[str] = ""
    """The field of the pipeline that it sets, from its own only field."""

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return images

    @property
    def value(self) -> int | str:
        """What the pipeline's field is set to."""
        raise NotImplementedError
