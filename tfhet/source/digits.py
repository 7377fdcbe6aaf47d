"""scikit-learn's handwritten digits as TFRecords: real data without a download. `python -m tfhet.source.digits DIR`.

1797 images by 43 people, 8x8 pixels of 17 grey levels (UCI "Optical Recognition of Handwritten Digits"), here as
32x32 RGB.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tfhet.errors import UsageError
from tfhet.source.feature import Raw, Scalar
from tfhet.source.sidecar import Sidecar
from tfhet.source.writing import appearing, write_tfrecords

EDGE = 32
VALIDATION_EXAMPLES = 360
SEED = 1797
FEATURES = {"image": Raw((EDGE, EDGE, 3), "uint8"), "label": Scalar("int64")}


def digits(directory: str | os.PathLike[str] | None = None, shards: int = 16, *, cache: Path | None = None) -> Path:
    """Returns a directory with `train` (1437 examples in `shards` files) and `validation` (360 in a quarter as many).

    The first call writes it; later calls and concurrent processes use what is there. Without `directory` it lies in
    `cache` (default ~/.cache) under `tfhet/digits`. The split is stratified by class and always the same. Raises
    UsageError when the directory holds other data or another number of shards, or scikit-learn is missing.
    """
    if shards < 1:
        raise UsageError(f"give at least 1 shard, not {shards}")
    home = Path.home() / ".cache" if cache is None else Path(cache)
    target = home / "tfhet" / "digits" / f"{shards}-shards" if directory is None else Path(directory)
    if not _complete(target, shards):
        images, labels, validation = _loaded()
        try:
            with appearing(target) as building:
                for name, chosen, count in (
                    ("train", ~validation, shards),
                    ("validation", validation, max(4, shards // 4)),
                ):
                    write_tfrecords(
                        building / name,
                        _examples(images[chosen], labels[chosen]),
                        count,
                        FEATURES,
                        seed=SEED,
                        classes=[str(digit) for digit in range(10)],
                        details={"origin": "scikit-learn digits"},
                    )
        except FileExistsError:
            if not _complete(target, shards):
                raise UsageError(f"{target} holds something else: choose another directory, or remove it") from None
    return target


def _complete(target: Path, shards: int) -> bool:
    sidecar = Sidecar.read(target / "train")
    if sidecar is None:
        return False
    if sidecar.details.get("shards") != shards:
        raise UsageError(f"{target} holds {len(sidecar.files)} shards, not {shards}: choose another directory")
    return True


def _loaded() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise UsageError("the digits come with scikit-learn: pip install 'tfhet[demo]'") from None
    images, labels = load_digits(return_X_y=True)
    _, held_out = train_test_split(
        np.arange(len(labels)), test_size=VALIDATION_EXAMPLES, stratify=labels, random_state=SEED
    )
    validation = np.zeros(len(labels), bool)
    validation[held_out] = True
    return enlarged(images.reshape(-1, 8, 8)), labels, validation


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
