"""The spec of the images between two stages, known without running any."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfhet.errors import UsageError
from tfhet.extras import tensorflow as tf
from tfhet.source import ArraySpec

if TYPE_CHECKING:
    import numpy as np

DTYPES = ("uint8", "float32", "encoded")


@dataclass(frozen=True)
class ImageSpec:
    """Images before or after a stage: `[batch, height, width, channels]`, or `[batch]` of the bytes of image files."""

    height: int | None
    """Rows; None when they differ from batch to batch."""
    width: int | None
    """Columns; None when they differ from batch to batch."""
    channels: int
    """Values per pixel; 0 for images that are not decoded."""
    dtype: str
    """`uint8`, `float32`, or `encoded`: strings that hold image files."""
    low: float
    """Lower bound of all values; -inf where unknown."""
    high: float
    """Upper bound of all values; inf where unknown."""
    ragged: bool = False
    """Whether sizes differ within a batch, as in decoded photos: a stage that brings them to one size has to follow."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UsageError(f"images are uint8, float32 or encoded, not {self.dtype}: cast them in the source")

    @classmethod
    def of(cls, tensor: ArraySpec | tf.TensorSpec | tf.Tensor | np.ndarray) -> ImageSpec:
        """Returns the spec of images, `[None, H, W, C]`, uint8 in 0..255 or float32 without bounds, or of image files,
        `[None]` strings. Raises UsageError when `tensor` is not a batch of images with a known number of channels."""
        dtype = tensor.dtype if isinstance(tensor, ArraySpec) else tensor.dtype.name
        shape = tensor.shape if isinstance(tensor.shape, tuple) or tensor.shape.rank is None else tuple(tensor.shape)
        if dtype == "string" and len(shape) == 1:
            return cls.of_files()
        if not isinstance(shape, tuple) or len(shape) != 4 or shape[3] is None:
            raise UsageError(f"not a batch of images: {dtype} {shape}; wanted [batch, height, width, channels]")
        height, width, channels = shape[1:]
        low, high = (0.0, 255.0) if dtype == "uint8" else (-math.inf, math.inf)
        return cls(height, width, channels, dtype, low, high)

    @classmethod
    def of_files(cls) -> ImageSpec:
        """Returns the spec of image files."""
        return cls(None, None, 0, "encoded", 0.0, 255.0)

    @property
    def form(self) -> str:
        """Form of the images: `images` (one size in each batch), `encoded` (files) or `ragged` (different sizes)."""
        return "encoded" if self.dtype == "encoded" else "ragged" if self.ragged else "images"

    @property
    def tensor(self) -> tf.TensorSpec:
        """TensorFlow's spec of the images: `[None, height, width, channels]`, or `[None]` strings."""
        if self.dtype == "encoded":
            return tf.TensorSpec([None], tf.string)
        return tf.TensorSpec([None, self.height, self.width, self.channels], tf.as_dtype(self.dtype))

    @property
    def example_bytes(self) -> int | None:
        """Bytes of one image; None when its size is unknown."""
        if self.height is None or self.width is None:
            return None
        return self.height * self.width * self.channels * (4 if self.dtype == "float32" else 1)
