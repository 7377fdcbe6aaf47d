"""What is known about the images between two stages, without running any."""

from __future__ import annotations

import math
from dataclasses import dataclass

import tensorflow as tf

from tfhet.errors import UsageError

DTYPES = ("uint8", "float32")


@dataclass(frozen=True)
class ImageSpec:
    """The images that a stage takes or gives: `[batch, height, width, channels]`, any batch."""

    height: int | None
    """Rows; None when they differ from batch to batch."""
    width: int | None
    """Columns; None when they differ from batch to batch."""
    channels: int
    """Values per pixel."""
    dtype: str
    """`uint8` or `float32`."""
    low: float
    """No value is below this; -inf when nobody said."""
    high: float
    """No value is above this; inf when nobody said."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UsageError(f"images are {' or '.join(DTYPES)}, not {self.dtype}: decode or cast them in the source")

    @classmethod
    def of(cls, tensor: tf.TensorSpec, low: float | None = None, high: float | None = None) -> ImageSpec:
        """From a source's `[None, H, W, C]` spec; the range is 0..255 for uint8, unbounded for float32 unless stated.

        Raises UsageError when `tensor` is not a batch of images with a known number of channels.
        """
        shape = tensor.shape
        if shape.rank != 4 or shape[3] is None:
            raise UsageError(f"not a batch of images: {tensor}; wanted [batch, height, width, channels]")
        bounds = (0.0, 255.0) if tensor.dtype == tf.uint8 else (-math.inf, math.inf)
        return cls(
            height=shape[1],
            width=shape[2],
            channels=shape[3],
            dtype=tensor.dtype.name,
            low=bounds[0] if low is None else low,
            high=bounds[1] if high is None else high,
        )

    @property
    def tensor(self) -> tf.TensorSpec:
        """The same as a spec of `[None, height, width, channels]`."""
        return tf.TensorSpec([None, self.height, self.width, self.channels], tf.as_dtype(self.dtype))

    @property
    def example_bytes(self) -> int | None:
        """Bytes of one image; None when its size is not known."""
        if self.height is None or self.width is None:
            return None
        return self.height * self.width * self.channels * int(tf.as_dtype(self.dtype).size)
