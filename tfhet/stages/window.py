"""Windows of images that are resized to one size, as a stage that depends on the sizes of images only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import tensorflow as tf

from tfhet.stages.resampling import resize_windows
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


class Window(Stage):
    """A stage that is one bilinear sampling of a window of each image.

    A window depends only on the size of its image, so that after `decode` only the window has to be decoded.
    """

    keeps_shape: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ("images", "ragged")
    confined: ClassVar[bool] = True
    """Whether the window's own edge is repeated beyond it; else the image continues there."""

    height: int
    width: int
    antialias: bool

    def spec(self, spec: ImageSpec) -> ImageSpec:
        self.admit(spec)
        return replace(spec, height=self.height, width=self.width, ragged=False)

    @property
    def bilinear(self) -> bool:
        """Whether the stage is a bilinear sampling of its windows. If not, it needs decoded images of one size."""
        return True

    def windows(self, parameters: Mapping[str, tf.Tensor], sizes: tf.Tensor) -> tf.Tensor:
        """Returns first row, first column, rows and columns of each window, in pixels of its image: float32 [batch, 4].

        sizes: int32 [batch, 2], rows and columns of the images.
        """
        raise NotImplementedError

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns resized windows of images: [batch, height, width, channels], or the ragged result of `decode`."""
        if isinstance(images, tf.RaggedTensor):
            return self._of_many_sizes(images, parameters)
        shape = tf.shape(images)
        sizes = tf.tile(shape[None, 1:3], [shape[0], 1])
        windows = self.windows(parameters, sizes)
        return resize_windows(images, windows, None, self.height, self.width, self.antialias, self.confined)

    def _of_many_sizes(self, images: tf.RaggedTensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        rows = images.row_lengths()
        columns = tf.gather(images.values.row_lengths(), images.row_starts())
        windows = self.windows(parameters, tf.cast(tf.stack([rows, columns], axis=1), tf.int32))

        def one(item: tuple[tf.RaggedTensor, tf.Tensor]) -> tf.Tensor:
            image, window = item[0].to_tensor()[None], item[1][None]
            return resize_windows(image, window, None, self.height, self.width, self.antialias, self.confined)[0]

        return tf.map_fn(one, (images, windows), fn_output_signature=tf.uint8)
