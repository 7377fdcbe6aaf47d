"""The stage `decode`, and decoding of windows of image files to a batch of one size.

`TfhetDecodeWindows` decodes a window in one pass over the rows of a JPEG image. TensorFlow's own operations decode
other files whole, and all files without a compiler or libjpeg. Both give the pixels of `tf.io.decode_jpeg`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.source import decoded, exif_orientation, turned
from tfhet.stages import resampling
from tfhet.stages.registry import register
from tfhet.stages.resampling import Scaling
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("decode")
class Decode(Stage):
    """Decodes JPEG, PNG, BMP or GIF (first frame) to uint8, each image in its own size.

    Values equal `tf.io.decode_image`, or Pillow and torchvision with `accurate`. The image is turned upright by the
    Exif orientation of its file.
    `random_resized_crop`, `resize` or `resized_center_crop` has to follow, which brings the images to one size.
    Together with it, and with a `random_flip()` after it, only the part of each image that is used is decoded.
    """

    channels: Annotated[int, (1, 3)] = 3
    """Channels of the result: 1 (grey) or 3 (RGB)."""
    upright: bool = True
    """Whether images are turned by the Exif orientation of their files, as photos of phones need."""
    accurate: bool = False
    """Whether JPEG is decoded by the accurate transform (JDCT_ISLOW), as by Pillow and torchvision, for 3 to 5 % more
    CPU time. The fast one differs from it by 1 level in the mean and by at most 6."""

    keeps_shape: ClassVar[bool] = False
    keeps_range: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ("encoded",)

    def spec(self, spec: ImageSpec) -> ImageSpec:
        self.admit(spec)
        return ImageSpec(None, None, self.channels, "uint8", 0.0, 255.0, ragged=True)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns ragged uint8 [batch, (height), (width), channels] for string [batch]."""
        return tf.map_fn(
            lambda content: tf.RaggedTensor.from_tensor(
                _whole(content, self.channels, _turn(content, self.upright), self.accurate)
            ),
            images,
            fn_output_signature=tf.RaggedTensorSpec([None, None, self.channels], tf.uint8, ragged_rank=1),
        )


def sizes(contents: tf.Tensor, upright: bool = True) -> tf.Tensor:
    """Returns rows and columns, int32 [batch, 2], read from the headers of contents, string [batch]. upright: whether
    after the turn by the Exif orientation."""
    if (operations := native.ops("jpeg")) is not None:
        return native.shaped(operations.tfhet_image_sizes(contents, upright=upright), [contents.shape[0], 2])
    return tf.map_fn(lambda content: _size(content, _turn(content, upright)), contents, fn_output_signature=tf.int32)


def decode_windows(
    contents: tf.Tensor,
    windows: tf.Tensor,
    flips: tf.Tensor | None,
    scaling: Scaling,
    channels: int = 3,
    upright: bool = True,
    accurate: bool = False,
) -> tf.Tensor:
    """Resizes windows of images in their files, string [batch], as `resampling.resize_windows` does.

    Returns uint8 [batch, height, width, channels]. Windows are of the images as `sizes` has them. Raises
    InvalidArgumentError for a file that cannot be decoded and for a window outside its image."""
    windows = tf.cast(windows, tf.float32)
    flips = tf.zeros(tf.shape(contents)[:1], tf.bool) if flips is None else flips

    def one(item: tuple[tf.Tensor, ...]) -> tf.Tensor:
        content, window, flip, turn = item
        image = _whole(content, channels, turn, accurate)[tf.newaxis]
        return resampling.resize_windows(image, window[tf.newaxis], flip[tf.newaxis], scaling)[0]

    if (operations := native.ops("jpeg")) is None:
        turns = tf.map_fn(lambda content: _turn(content, upright), contents, fn_output_signature=tf.int32)
        return tf.map_fn(one, (contents, windows, flips, turns), fn_output_signature=tf.uint8)
    images, others, turns = operations.tfhet_decode_windows(
        contents, windows, flips, **vars(scaling), channels=channels, upright=upright, accurate=accurate
    )

    def completed() -> tf.Tensor:
        # Few operations, because every iterator of a data set sets them up again.
        picked = tuple(tf.gather(tensor, others) for tensor in (contents, windows, flips))
        decoded = tf.map_fn(one, (*picked, turns), fn_output_signature=tf.uint8)
        return tf.tensor_scatter_nd_update(images, others[:, None], decoded)

    result = tf.cond(tf.size(others) > 0, completed, lambda: images)
    return native.shaped(result, [contents.shape[0], scaling.height, scaling.width, channels])


def _turn(content: tf.Tensor, upright: bool) -> tf.Tensor:
    return exif_orientation(content) if upright else tf.constant(1)


def _size(content: tf.Tensor, turn: tf.Tensor) -> tf.Tensor:
    """Returns rows and columns, int32 [2], of a file, string []; a file that is not JPEG is decoded for that."""
    size = tf.cond(
        tf.strings.substr(content, 0, 3) == b"\xff\xd8\xff",
        lambda: tf.io.extract_jpeg_shape(content)[:2],
        lambda: tf.shape(_whole(content, 3))[:2],
    )
    return tf.where(turn >= 5, size[::-1], size)


def _whole(content: tf.Tensor, channels: int, turn: tf.Tensor | None = None, accurate: bool = False) -> tf.Tensor:
    """Returns the image of a file, string [], as uint8 [height, width, channels], turned by an Exif orientation."""
    image = tf.ensure_shape(decoded(content, channels, accurate), [None, None, channels])
    return image if turn is None else turned(image, turn)
