"""Geometric transforms of a batch, one matrix per image.

A transform is float32 [batch, 8]: (a0 a1 a2 b0 b1 b2 c0 c1) sends the *output* point (x, y) to the input point
((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k) with k = c0 x + c1 y + 1, as `ImageProjectiveTransformV3` has it. The
matrices are those of the Keras 2.15 layers RandomRotation and RandomZoom.
"""

from __future__ import annotations

import tensorflow as tf


def rotation(angles: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """angles: float32 [batch], radians, positive is counter-clockwise; sizes in pixels -> float32 [batch, 8]."""
    cos, sin = tf.cos(angles), tf.sin(angles)
    right, bottom = tf.cast(width, tf.float32) - 1.0, tf.cast(height, tf.float32) - 1.0
    x_offset = (right - (cos * right - sin * bottom)) / 2.0
    y_offset = (bottom - (sin * right + cos * bottom)) / 2.0
    zero = tf.zeros_like(angles)
    return tf.stack([cos, -sin, x_offset, sin, cos, y_offset, zero, zero], axis=1)


def zooming(zooms: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """zooms: float32 [batch], above 1 shows more (zooms out); sizes in pixels -> float32 [batch, 8]."""
    x_offset = (tf.cast(width, tf.float32) - 1.0) / 2.0 * (1.0 - zooms)
    y_offset = (tf.cast(height, tf.float32) - 1.0) / 2.0 * (1.0 - zooms)
    zero = tf.zeros_like(zooms)
    return tf.stack([zooms, zero, x_offset, zero, zooms, y_offset, zero, zero], axis=1)


def project(images: tf.Tensor, transforms: tf.Tensor) -> tf.Tensor:
    """images: uint8 or float32 [batch, H, W, C] -> the same shape and dtype; bilinear, reflected at the edges.

    uint8 comes out rounded to the nearest grey level: the operation itself would cut the fraction off, and darken the
    image by half a level on average.
    """
    size = tf.shape(images)[1:3]
    projected = tf.raw_ops.ImageProjectiveTransformV3(
        images=tf.cast(images, tf.float32),
        transforms=transforms,
        output_shape=size,
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="REFLECT",
    )
    projected.set_shape(images.shape)
    return projected if images.dtype == tf.float32 else tf.cast(tf.round(projected), images.dtype)
