"""The stage `decode`, and decoding of windows of image files to a batch of one size.

`TfhetDecodeWindows` decodes a window in one pass over the rows of a JPEG image. TensorFlow's own operations decode
other files whole, and all files without a compiler or libjpeg. Both give the pixels of `tf.io.decode_jpeg`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages import resampling
from tfhet.stages.registry import register
from tfhet.stages.resampling import Scaling
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("decode")
class Decode(Stage):
    """Decodes JPEG, PNG, BMP or GIF (first frame) to uint8, each image in its own size.

    Values equal `tf.io.decode_image`. `random_resized_crop`, `resize` or `resized_center_crop` has to follow,
    which brings the images to one size. Together with it, and with a `random_flip()` after it, only the part of each
    image that is used is decoded.
    """

    channels: Annotated[int, (1, 3)] = 3
    """Channels of the result: 1 (grey) or 3 (RGB)."""

    keeps_shape: ClassVar[bool] = False
    keeps_range: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ("encoded",)

    def spec(self, spec: ImageSpec) -> ImageSpec:
        self.admit(spec)
        return ImageSpec(None, None, self.channels, "uint8", 0.0, 255.0, ragged=True)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns ragged uint8 [batch, (height), (width), channels] for string [batch]."""
        return tf.map_fn(
            lambda content: tf.RaggedTensor.from_tensor(_whole(content, self.channels)),
            images,
            fn_output_signature=tf.RaggedTensorSpec([None, None, self.channels], tf.uint8, ragged_rank=1),
        )


def sizes(contents: tf.Tensor) -> tf.Tensor:
    """Returns rows and columns, int32 [batch, 2], read from the headers of contents, string [batch]."""
    if (operations := native.ops("jpeg")) is not None:
        return native.shaped(operations.tfhet_image_sizes(contents), [contents.shape[0], 2])
    return tf.map_fn(_size, contents, fn_output_signature=tf.int32)


def decode_windows(
    contents: tf.Tensor, windows: tf.Tensor, flips: tf.Tensor | None, scaling: Scaling, channels: int = 3
) -> tf.Tensor:
    """Returns what `resampling.resize_windows` does for images in their files, string [batch]: uint8 [batch, height,
    width, channels]. Raises InvalidArgumentError for a file that cannot be decoded and for a window outside its image,
    with the place in the batch of a JPEG image."""
    windows = tf.cast(windows, tf.float32)
    flips = tf.zeros(tf.shape(contents)[:1], tf.bool) if flips is None else flips

    def one(item: tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> tf.Tensor:
        content, window, flip = item
        image = _whole(content, channels)[tf.newaxis]
        return resampling.resize_windows(image, window[tf.newaxis], flip[tf.newaxis], scaling)[0]

    if (operations := native.ops("jpeg")) is None:
        return tf.map_fn(one, (contents, windows, flips), fn_output_signature=tf.uint8)
    images, others = operations.tfhet_decode_windows(contents, windows, flips, **vars(scaling), channels=channels)

    def completed() -> tf.Tensor:
        # Few operations, because every iterator of a data set sets them up again.
        picked = tuple(tf.gather(tensor, others) for tensor in (contents, windows, flips))
        decoded = tf.map_fn(one, picked, fn_output_signature=tf.uint8)
        return tf.tensor_scatter_nd_update(images, others[:, None], decoded)

    result = tf.cond(tf.size(others) > 0, completed, lambda: images)
    return native.shaped(result, [contents.shape[0], scaling.height, scaling.width, channels])


def _size(content: tf.Tensor) -> tf.Tensor:
    """Returns rows and columns, int32 [2], of a file, string []; a file that is not JPEG is decoded for that."""
    return tf.cond(
        tf.strings.substr(content, 0, 3) == b"\xff\xd8\xff",
        lambda: tf.io.extract_jpeg_shape(content)[:2],
        lambda: tf.shape(_whole(content, 3))[:2],
    )


def _whole(content: tf.Tensor, channels: int) -> tf.Tensor:
    image = tf.io.decode_image(content, channels=channels, expand_animations=False)
    return tf.ensure_shape(image, [None, None, channels])
