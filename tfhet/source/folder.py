"""Writes a folder of images, with one sub-folder for each class, as sharded TFRecords."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.errors import DataError, UsageError
from tfhet.source.feature import Encoded, Feature, Raw, Scalar
from tfhet.source.writing import write_tfrecords

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif")
SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"BM", b"GIF8")
"""First bytes of the image files that TensorFlow can decode."""
PROGRESS_EXAMPLES = 500
"""Number of images between two calls of `progressed`."""


def from_image_folder(
    folder: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    shards: int,
    size: tuple[int, int] | None = None,
    seed: int = 0,
    progressed: Callable[[int, int], object] = lambda done, total: None,
) -> Path:
    """Writes `image` and `label` of every image in `folder`/CLASS/**, in an order drawn from `seed`.

    Returns `directory`. The files are stored unchanged, or with `size` (height, width) as raw RGB of that size, which
    takes 3 bytes a pixel and no decoding later. Labels number the classes in the order of their names, which go into
    `tfhet.json`. progressed: called with the numbers of images that are done, and of all, now and then. Raises
    UsageError when there are no classes or no images, or the directory is not empty; DataError, naming the file, for
    one that is not an image.
    """
    classes, files = _listed(Path(folder))
    order = np.random.default_rng(seed).permutation(len(files))
    features: Mapping[str, Feature] = {
        "image": Encoded() if size is None else Raw((*size, 3), "uint8"),
        "label": Scalar("int64"),
    }

    def examples() -> Iterator[Mapping[str, Any]]:
        for done, index in enumerate(order):
            if done % PROGRESS_EXAMPLES == 0:
                progressed(done, len(files))
            file, label = files[index]
            yield {"image": _content(file) if size is None else _resized(file, size), "label": label}
        progressed(len(files), len(files))

    return write_tfrecords(directory, examples(), shards, features, seed, classes, {"origin": Path(folder).name})


def _listed(folder: Path) -> tuple[Sequence[str], Sequence[tuple[Path, int]]]:
    if not folder.is_dir():
        raise UsageError(f"no image folder {folder}: it should hold one sub-folder for each class")
    classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not classes:
        raise UsageError(f"{folder} has no sub-folders: put the images of each class into a sub-folder of their own")
    files = []
    for label, name in enumerate(classes):
        found = sorted(file for file in (folder / name).rglob("*") if file.suffix.lower() in SUFFIXES)
        if not found:
            raise UsageError(f"class {name} has no images in {folder / name}; images end in {', '.join(SUFFIXES)}")
        files += [(file, label) for file in found]
    return classes, files


def _content(file: Path) -> bytes:
    content = file.read_bytes()
    if not content.startswith(SIGNATURES):
        raise DataError(f"{file} is not a JPEG, PNG, BMP or GIF image: remove or replace it", path=str(file))
    return content


def _resized(file: Path, size: tuple[int, int]) -> np.ndarray:
    try:
        return Encoded(*size).decode(tf.constant([_content(file)]))[0].numpy()
    except tf.errors.InvalidArgumentError as error:
        reason = str(error).strip().split("\n")[0]
        raise DataError(f"{file} cannot be decoded: {reason}; remove or replace it", path=str(file)) from None
