"""`tfhet.split`: a training and a validation part that are the same alone and distributed.

    train, validation = tfhet.split(data, 0.9)
    model.fit(
        tfhet.distribute(train.shuffle(10_000).batch(64)),
        validation_data=tfhet.distribute(validation.batch(64), training=False),
    )

`take` and `skip` of shuffled data are no such parts: each data set shuffles for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfhet.errors import UsageError


class Part(Sequence[Any]):
    """Some elements of a sequence, such as a map-style dataset of PyTorch."""

    def __init__(self, whole: Any, places: Sequence[int]):
        self.whole, self.places = whole, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: Any) -> Any:
        return Part(self.whole, self.places[index]) if isinstance(index, slice) else self.whole[self.places[index]]


def split(data: Any, fraction: float, *, seed: int = 0) -> tuple[Any, Any]:
    """Returns the training part of `data`, with this fraction of the examples, and the validation part with the rest.
    The parts depend on `seed` and on the number of examples alone, and keep the order of `data`.

    `data` may be

    - a tf.data.Dataset that begins with `from_tensor_slices`, `range` or `list_files`, or a zip of such data sets. Its
      examples are split, below any shuffle and batch; if it reads files of many records, whole files are;
    - a `TFRecordSource`: whole files are split;
    - a list or tuple (of files, for example), an array, or a map-style dataset of PyTorch, with `__len__` and
      `__getitem__`;
    - the number of examples: the parts are then lists of indices.

    Examples that overlap, such as windows of one series, share data between the parts: split the series before.
    Raises UsageError for other data, a fraction that is not between 0 and 1, and parts without an example.
    """
    if not 0 < fraction < 1:
        raise UsageError(f"the fraction of the training part is {fraction}, and must be between 0 and 1")
    if hasattr(data, "element_spec"):
        from tfhet.datasets import split_dataset  # loads TensorFlow

        return split_dataset(data, lambda count: places(count, fraction, seed))
    if hasattr(data, "with_files"):
        train, validation = places(len(data.files), fraction, seed, "files")
        return data.with_files(train), data.with_files(validation)
    if isinstance(data, int):
        return places(data, fraction, seed)
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")) or isinstance(data, (str, bytes, dict)):
        raise UsageError(
            f"tfhet.split cannot split {type(data).__name__}: pass a tf.data.Dataset, a TFRecordSource (a pipeline's "
            "source), a sequence, or the number of examples"
        )
    if isinstance(data, (list, tuple)) and any(getattr(each, "shape", ()) for each in data):
        raise UsageError("tfhet.split cannot split several arrays: pass tf.data.Dataset.from_tensor_slices of them")
    parts = places(len(data), fraction, seed)
    if isinstance(data, np.ndarray):
        return data[parts[0]], data[parts[1]]
    if isinstance(data, (list, tuple)):
        return type(data)(data[place] for place in parts[0]), type(data)(data[place] for place in parts[1])
    return Part(data, parts[0]), Part(data, parts[1])


def places(count: int, fraction: float, seed: int, what: str = "examples") -> tuple[list[int], list[int]]:
    """Returns which of `count` examples are in the training part, and which are in the validation part."""
    first = round(count * fraction)
    if not 0 < first < count:
        raise UsageError(f"{count} {what} cannot be split at {fraction}: each part needs at least one of them")
    order = np.random.RandomState(seed).permutation(count)
    return sorted(order[:first].tolist()), sorted(order[first:].tolist())
