"""Stages that set the flow of examples and leave the images unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import tensorflow as tf

from tfhet.stages.stage import Stage


class Stream(Stage):
    """A setting of the pipeline that is written as a stage; images pass unchanged.

    `Pipeline(source, "shuffle(1000); random_flip()")` is `Pipeline(source, "random_flip()", shuffle=1000)`.
    """

    takes: ClassVar[tuple[str, ...]] = ("encoded", "ragged", "images")
    setting: ClassVar[str] = ""
    """Field of the pipeline that the stage sets, from its own only field."""

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return images

    @property
    def value(self) -> int | str:
        """Value of the pipeline's field."""
        raise NotImplementedError
