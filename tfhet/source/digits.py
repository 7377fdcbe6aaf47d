"""scikit-learn's handwritten digits as TFRecords: real data without a download. `python -m tfhet.source.digits DIR`.

1797 images by 43 people, 8x8 pixels of 17 grey levels (UCI "Optical Recognition of Handwritten Digits"), as 32x32 RGB.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.extras import needed
from tfhet.source.encoding import write_record
from tfhet.source.feature import Raw, Scalar
from tfhet.source.tfrecord import TFRecordSource
from tfhet.source.writing import made_once, write_tfrecords

EDGE = 32
VALIDATION_EXAMPLES = 360
SEED = 1797
FEATURES = {"image": Raw((EDGE, EDGE, 3), "uint8"), "label": Scalar("int64")}
REPEATED_SHARDS = 4
"""Maximum number of files that `repeated` writes."""


def digits(directory: str | os.PathLike[str] | None = None, shards: int = 16, *, cache: Path | None = None) -> Path:
    """Returns a directory with `train` (1437 examples in `shards` files) and `validation` (360 in a quarter as many).
    The first call writes it; later calls and concurrent processes use what is there. Without `directory` it lies in
    `cache` (default ~/.cache) under `tfhet/digits`. The split is stratified by class and always the same. Raises
    UsageError when the directory holds other data or another number of shards, or scikit-learn is missing."""

    def fill(building: Path) -> None:
        images, labels, validation = _loaded()
        for name, chosen, count in (("train", ~validation, shards), ("validation", validation, max(4, shards // 4))):
            examples = _examples(images[chosen], labels[chosen])
            classes, details = list(map(str, range(10))), {"origin": "scikit-learn digits"}
            write_tfrecords(building / name, examples, count, FEATURES, SEED, classes, details)

    return made_once(directory, cache, f"digits/{shards}-shards", {"shards": shards}, fill, described_by="train")


def repeated(directory: Path, examples: int, cache: Path | None = None) -> TFRecordSource:
    """Writes `examples` records to at most REPEATED_SHARDS files in `directory` and returns them as a source: the
    training examples of `digits`, taken in turn as often as needed, and dealt out to the files one by one."""
    train = TFRecordSource.from_directory(digits(cache=cache) / "train")
    records = itertools.cycle(list(tf.data.TFRecordDataset(list(train.files)).as_numpy_iterator()))
    shards = min(REPEATED_SHARDS, examples)
    files = [str(directory / f"digits-{index:05d}-of-{shards:05d}.tfrecord") for index in range(shards)]
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(open(file, "wb")) for file in files]
        for index in range(examples):
            write_record(streams[index % shards], next(records))
    return TFRecordSource(files, FEATURES)


def _loaded() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns images uint8 [n, 32, 32, 3], labels [n], and which of them are for validation, bool [n]."""
    with needed("the digits data set"):
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    images, labels = load_digits(return_X_y=True)
    every = np.arange(len(labels))
    _, held_out = train_test_split(every, test_size=VALIDATION_EXAMPLES, stratify=labels, random_state=SEED)
    return enlarged(images.reshape(-1, 8, 8)), labels, np.isin(every, held_out)


def enlarged(images: np.ndarray) -> np.ndarray:
    """Enlarges [n, 8, 8] of 0..16 to uint8 [n, 32, 32, 3] of 0..255, linearly between the centres of pixels."""
    centres = (np.arange(EDGE) + 0.5) * 8 / EDGE - 0.5
    weights = np.maximum(0.0, 1.0 - np.abs(np.clip(centres, 0, 7)[:, None] - np.arange(8)))
    grey = np.rint(weights @ (images * (255 / 16)) @ weights.T).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=3)


def _examples(images: np.ndarray, labels: np.ndarray) -> Iterator[Mapping[str, Any]]:
    for index in np.random.default_rng(SEED).permutation(len(labels)):
        yield {"image": images[index], "label": labels[index]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes scikit-learn's digits as 32x32 RGB TFRecords.")
    parser.add_argument("directory", nargs="?", help="directory to write (default ~/.cache/tfhet/digits/N-shards)")
    parser.add_argument("--shards", type=int, default=16, help="number of files of the training part (default 16)")
    arguments = parser.parse_args()
    print(digits(arguments.directory, arguments.shards))
