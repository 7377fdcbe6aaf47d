"""JPEG photos of many sizes as TFRecords, without a download.

Parts of the two photos that come with scikit-learn, enlarged, mirrored, coloured and with the noise of a sensor. Sizes
and bytes are distributed about as in ImageNet's training images, so that decoding takes about as long: 500 x 375 in the
median, some upright, some up to 1000 x 750, 100 kB in the mean.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.extras import needed
from tfhet.source.feature import Encoded, Scalar
from tfhet.source.writing import made_once, write_tfrecords

CLASSES = ("china.jpg", "flower.jpg")
FEATURES = {"image": Encoded(), "label": Scalar("int64")}
SIZES = ((375, 500), (333, 500), (300, 400), (400, 500), (500, 500), (480, 640), (600, 800), (750, 1000))
"""Rows and columns of photos that are wider than high; one photo in four is turned."""
SHARES = (0.55, 0.12, 0.06, 0.05, 0.05, 0.07, 0.05, 0.05)
"""Probability of each size."""


def photos(
    directory: str | os.PathLike[str] | None = None,
    count: int = 512,
    seed: int = 0,
    shards: int = 8,
    *,
    cache: Path | None = None,
) -> Path:
    """Returns a directory of `count` photos with their `label`, 0 (china) or 1 (flower), in `shards` files. The first
    call writes it; later calls and concurrent processes use what is there. Without `directory` it lies in `cache`
    (default ~/.cache) under `tfhet/photos`. Equal arguments give equal photos. Raises UsageError when the directory
    holds other data, or scikit-learn is missing."""
    if count < 1 or shards < 1:
        raise UsageError(f"give at least 1 photo and 1 shard, not {count} and {shards}")
    details = {"origin": "scikit-learn photos", "photos": count}

    def fill(building: Path) -> None:
        write_tfrecords(building, _examples(count, seed), shards, FEATURES, seed, CLASSES, details)

    name = f"photos/{count}-photos-{shards}-shards-seed-{seed}"
    return made_once(directory, cache, name, {**details, "shards": shards, "seed": seed}, fill)


def _examples(count: int, seed: int) -> Iterator[Mapping[str, Any]]:
    with needed("the photos data set"):
        from sklearn.datasets import load_sample_image
    originals = [load_sample_image(name) for name in CLASSES]
    random = np.random.default_rng(seed)
    for index in range(count):
        label = index % len(originals)
        yield {"image": _photo(originals[label], random), "label": label}


def _photo(original: np.ndarray, random: np.random.Generator) -> bytes:
    """Returns a JPEG file of a random part of uint8 [rows, columns, 3]."""
    size = SIZES[random.choice(len(SIZES), p=SHARES)]
    if random.random() < 0.25:
        size = size[::-1]
    rows, columns = original.shape[:2]
    # The largest part of the wanted shape, or one with sides down to half as long.
    share = random.uniform(0.5, 1.0) * min(rows / size[0], columns / size[1])
    height, width = int(size[0] * share), int(size[1] * share)
    top, left = random.integers(rows - height + 1), random.integers(columns - width + 1)
    part = original[top : top + height, left : left + width]
    if random.random() < 0.5:
        part = part[:, ::-1]
    values = tf.image.resize(part, size, "bicubic").numpy()
    values = values * random.uniform(0.8, 1.2, 3) + random.uniform(-15.0, 15.0)
    # Noise in grey levels: the files become as large as files of photos that were not enlarged.
    values += random.normal(0.0, random.uniform(3.0, 11.0), values.shape)
    image = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    quality, kind = int(random.integers(85, 97)), random.random()
    if kind < 0.02:
        return tf.io.encode_jpeg(image[..., 1:2], "grayscale", quality).numpy()
    return tf.io.encode_jpeg(image, "rgb", quality, chroma_downsampling=kind < 0.9).numpy()
