"""Objects of this process as sources: map-style datasets (torchvision, Hugging Face, your own) and arrays.

source = MapStyle(torchvision.datasets.CIFAR10("data"))
source = MapStyle(datasets.load_dataset("cifar10")["train"], image="img")
source = ArraySource(images, labels)                          # uint8 or float32 [n, height, width, channels]

Data hosts cannot make them: a job with a data group needs a source of files, or a function.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from PIL import Image

from tfhet.errors import UsageError, shown
from tfhet.source.array_spec import ArraySpec
from tfhet.source.indexed import Indexed

DTYPES = ("uint8", "float32")
"""Data types of images that are arrays."""
_SAMPLES = 64
"""Number of images whose content is in the fingerprint of arrays."""


class InProcess(Indexed):
    """Base class of sources that only this process has. They have one split; ids are places."""

    count: int

    def sizes(self) -> np.ndarray:
        return np.array([self.count], np.int64)

    def places(self, ids: Sequence[int] | np.ndarray) -> list[tuple[str, int]]:
        return [("", 0)] * len(self.rows(ids))

    def as_json(self) -> NoReturn:
        """Raises UsageError: only this process has the data."""
        raise UsageError(
            f"{type(self).__name__} exists in this process only, so data hosts cannot read it: use ImageFolder, "
            "FileList, TarSource, ParquetSource or TFRecordSource, or a function that makes the dataset "
            "(tfhet.batches(make_dataset, batch_size=...))"
        )


class MapStyle(InProcess):
    """A dataset with `__len__` and `__getitem__`, whose items are (image, label), or mappings with both.

    An image is the bytes of an image file (bytes, or a mapping with `bytes`), a uint8 or float32 array [height, width,
    channels], or a PIL image, which becomes RGB. All images of arrays have one size. An item must always be the same:
    put random augmentation into the stages of the pipeline, which draw by seed, epoch and id.
    """

    name = "map_style"

    def __init__(self, dataset: Any, image: str = "image", label: str = "label", concurrent: bool = False) -> None:
        """
        Args:
            image, label: Keys of items that are mappings.
            concurrent: Whether several threads may call `dataset[index]` at the same time; False: one at a time.

        Raises:
            UsageError: The dataset has no length, no items, or no `__getitem__`.
        """
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")) or not len(dataset):
            raise UsageError(f"MapStyle needs a dataset with __len__ and __getitem__ and items, not {shown(dataset)}")
        self.dataset, self.image, self.label, self.concurrent = dataset, image, label, concurrent
        self.count, self._lock = len(dataset), contextlib.nullcontext() if concurrent else threading.Lock()

    def __reduce__(self) -> tuple:
        return MapStyle, (self.dataset, self.image, self.label, self.concurrent)

    def load(self, ids: np.ndarray) -> dict[str, Any]:
        """Returns the images of these ids, int64 [n], as a list of bytes or an array [n, height, width, channels], and
        their labels [n, ...]."""
        rows = self.rows(ids).tolist()
        items = [self._item(index) for index in rows]
        images, first = [image for image, _ in items], self._first[0]
        for index, image in zip(rows, images, strict=True):
            if _form(image) != _form(first):
                raise UsageError(
                    f"item {index} of {self._kind} has {_form(image)}, but item 0 {_form(first)}: return the bytes of "
                    "the image files, which decode() reads (torchvision: loader=lambda path: Path(path).read_bytes(); "
                    "Hugging Face: cast_column('image', datasets.Image(decode=False))), or resize all to one size"
                )
        labels = np.stack([label for _, label in items]) if items else np.empty((0, *self._first[1].shape))
        return {"image": images if isinstance(first, bytes) else np.stack(images), "label": labels}

    @property
    def spec(self) -> dict[str, ArraySpec]:
        """Specs by item 0."""
        image, label = self._first
        of_image = ArraySpec((None,), "string") if isinstance(image, bytes) else _spec(image)
        return {"image": of_image, "label": _spec(label)}

    def fingerprint(self) -> str:
        """Returns a hex digest of the number of items, and of the first, the middle and the last item."""
        return self._fingerprint

    @functools.cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.blake2b(f"{self.name} {self.count}".encode(), digest_size=16)
        for index in (0, self.count // 2, self.count - 1):
            image, label = self._item(index)
            digest.update(f"{_form(image)} {label.tolist()}".encode())
            digest.update(image if isinstance(image, bytes) else image.tobytes())
        return digest.hexdigest()

    @functools.cached_property
    def _first(self) -> tuple[bytes | np.ndarray, np.ndarray]:
        return self._item(0)

    @property
    def _kind(self) -> str:
        return type(self.dataset).__name__

    def _item(self, index: int) -> tuple[bytes | np.ndarray, np.ndarray]:
        with self._lock:
            item = self.dataset[index]
        try:
            image, label = (item[self.image], item[self.label]) if isinstance(item, Mapping) else item
        except (KeyError, TypeError, ValueError):
            found = f"the keys {', '.join(map(str, item))}" if isinstance(item, Mapping) else shown(item)
            raise UsageError(
                f"item {index} of {self._kind} is no (image, label) and no mapping with {self.image!r} and "
                f"{self.label!r}, but has {found}"
            ) from None
        if isinstance(image, Mapping) and image.get("bytes"):
            image = image["bytes"]
        elif isinstance(image, Image.Image):
            image = np.asarray(image.convert("RGB"))
        is_array = isinstance(image, np.ndarray) and image.ndim == 3 and image.dtype.name in DTYPES
        if not isinstance(image, bytes) and not is_array:
            raise UsageError(
                f"the image of item {index} of {self._kind} is {_form(image)}: return bytes of an image file, a PIL "
                "image, or a uint8 array [height, width, channels]"
            )
        return image, _label(label)


class ArraySource(InProcess):
    """Images in memory, uint8 or float32 [n, height, width, channels], and their labels [n, ...]."""

    name = "array"

    def __init__(self, images: np.ndarray, labels: np.ndarray | Sequence[int]) -> None:
        """Raises UsageError for arrays of other shapes or types."""
        self.images, self.labels = np.asarray(images), _label(labels)
        if self.images.ndim != 4 or self.images.dtype.name not in DTYPES or not len(self.images):
            raise UsageError(f"images are uint8 or float32 [n, height, width, channels], not {_form(self.images)}")
        self.count = len(self.images)
        if self.labels.ndim < 1 or len(self.labels) != self.count:
            raise UsageError(f"labels are an array [{self.count}, ...], one for each image, not {_form(self.labels)}")

    def load(self, ids: np.ndarray) -> dict[str, Any]:
        rows = self.rows(ids)
        return {"image": self.images[rows], "label": self.labels[rows]}

    @property
    def spec(self) -> dict[str, ArraySpec]:
        return {"image": _spec(self.images[0]), "label": _spec(self.labels[0])}

    def fingerprint(self) -> str:
        """Returns a hex digest of the labels and of 64 images."""
        digest = hashlib.blake2b(f"{_form(self.images)} {_form(self.labels)}".encode(), digest_size=16)
        digest.update(np.ascontiguousarray(self.labels))
        digest.update(self.images[np.linspace(0, self.count - 1, min(self.count, _SAMPLES)).astype(int)].tobytes())
        return digest.hexdigest()


def _form(value: Any) -> str:
    """Returns what an image is, for comparisons and errors."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    return "bytes" if isinstance(value, bytes) else type(value).__name__


def _spec(value: np.ndarray) -> ArraySpec:
    """Returns the spec of a batch of such values."""
    return ArraySpec((None, *np.shape(value)), value.dtype.name)


def _label(value: Any) -> np.ndarray:
    """Returns a label, or labels, as an array; integers as int64."""
    label = np.asarray(value)
    if label.dtype.kind not in "iuf":
        raise UsageError(f"labels are numbers, not {shown(value)}")
    return label if label.dtype.kind == "f" else label.astype(np.int64)
