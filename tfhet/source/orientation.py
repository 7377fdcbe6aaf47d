"""Decoding of image files by TensorFlow, and the Exif orientation of JPEG and PNG files: phones store photos unturned,
with a note how to turn them."""

from __future__ import annotations

import tensorflow as tf

_TAG, _SHORT = 0x0112, 3
_MOST_BYTES = 1 << 16  # of an Exif block in a JPEG file


def decoded(content: tf.Tensor, channels: int, accurate: bool = False) -> tf.Tensor:
    """Decodes an image file, string [], to uint8 [height, width, channels]. accurate: JPEG by JDCT_ISLOW."""

    def of_any() -> tf.Tensor:
        return tf.io.decode_image(content, channels=channels, expand_animations=False)

    def of_jpeg() -> tf.Tensor:
        return tf.io.decode_jpeg(content, channels=channels, dct_method="INTEGER_ACCURATE")

    return tf.cond(tf.strings.substr(content, 0, 3) == b"\xff\xd8\xff", of_jpeg, of_any) if accurate else of_any()


def exif_orientation(content: tf.Tensor) -> tf.Tensor:
    """Returns the Exif orientation, int32 [] from 1 to 8, of an image file, string []; 1 (upright) by default."""
    is_png = tf.strings.substr(content, 0, 4) == b"\x89PNG"
    parts = tf.strings.split(content, tf.where(is_png, b"eXIf", b"Exif\0\0"), maxsplit=1)
    before, tiff = parts[0], tf.cond(tf.size(parts) > 1, lambda: parts[1], lambda: tf.constant(b""))
    is_block = is_png | (
        (tf.strings.substr(content, 0, 2) == b"\xff\xd8")
        & (tf.strings.length(before) >= 6)
        & (tf.strings.substr(before, tf.maximum(tf.strings.length(before) - 4, 0), 2) == b"\xff\xe1")
    )
    size = tf.minimum(tf.strings.length(tiff), _MOST_BYTES)
    data = tf.cast(tf.io.decode_raw(tf.strings.substr(tiff, 0, size), tf.uint8), tf.int32)
    data = tf.concat([data, tf.zeros([24], tf.int32)], axis=0)
    is_little = data[0] == ord("I")

    def number(at: tf.Tensor, width: int) -> tf.Tensor:
        digits = [tf.gather(data, tf.clip_by_value(at + place, 0, size + 20)) for place in range(width)]
        little = sum(digit * 256**place for place, digit in enumerate(digits))
        return tf.where(
            is_little, little, sum(digit * 256 ** (width - 1 - place) for place, digit in enumerate(digits))
        )

    first = number(tf.constant(4), 4)
    places = first + 2 + 12 * tf.range(number(first, 2))
    value = tf.where(number(places + 2, 2) == _SHORT, number(places + 8, 2), number(places + 8, 4))
    is_ours = (number(places, 2) == _TAG) & (places >= 10) & (places + 12 <= size)
    values = tf.boolean_mask(value, is_ours)[:1]
    found = tf.reduce_sum(values)
    return tf.where(is_block & (found >= 1) & (found <= 8), found, 1)


def turned(image: tf.Tensor, code: tf.Tensor) -> tf.Tensor:
    """Turns an image [height, width, channels] of an Exif orientation, int32 [] from 1 to 8."""
    image = tf.cond(code >= 5, lambda: tf.transpose(image, [1, 0, 2]), lambda: image)
    image = tf.cond(tf.reduce_any(code == [2, 3, 6, 7]), lambda: image[:, ::-1], lambda: image)
    return tf.cond(tf.reduce_any(code == [3, 4, 7, 8]), lambda: image[::-1], lambda: image)
