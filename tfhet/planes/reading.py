"""`tfhet.batches(data)`: the batches of any source as NumPy arrays, for any framework.

for batch in tfhet.batches(make_loader):       # a function: --data_plane feed runs it on the serving hosts
    train(batch)
for images, labels in tfhet.batches(ds):       # a tf.data.Dataset or a tfhet.Pipeline: tf.data service
    train(images, labels)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tfhet.cluster import environment
from tfhet.errors import UsageError
from tfhet.pipeline import Pipeline
from tfhet.planes.feed.batch_reader import MAKE_LIMIT_S
from tfhet.planes.feed.loader import Loader, is_loaded
from tfhet.planes.hooks import run_hooks
from tfhet.strategies import JobContext


def batches(
    data: Any,
    *,
    arguments: Mapping[str, Any] | None = None,
    batch_size: int = 0,
    shuffle: bool = False,
    drop_last: bool = False,
    collate: Callable[..., Any] | None = None,
    training: bool = True,
    ahead: int | None = None,
    make_limit_s: float = MAKE_LIMIT_S,
    job: JobContext | None = None,
    convert: Callable[[Any], Any] | None = None,
    allocate: Callable[[int], np.ndarray] | None = None,
) -> Iterable[Any]:
    """Returns an iterable of this rank's share of the batches of `data`; each iteration is an epoch.

    Batches are dicts, lists and tuples of NumPy arrays, numbers, texts and bytes.

    Args:
        data: A tfhet.Pipeline, which runs natively if it can; a tf.data.Dataset (see `tfhet.distribute`); or a function
            at the top level of a module.
            The serving hosts, or this process if there are none, call `data(shard, **arguments)`; `shard` has index,
            count, epoch and seed. The function returns an iterable of the shard's batches, or with `batch_size` a
            map-style dataset of all examples (__len__ and __getitem__). The global generators of Python, NumPy and
            PyTorch are seeded by run, epoch and batch (or shard).
        collate: Makes a batch of a list of examples; None: arrays are stacked.
        training: Whether batches that fill no round of all ranks are left over. Otherwise, for validation, one of the
            ranks gets each example, and the last batches are divided so that all ranks have equally many.
        ahead: Number of batches of this rank that each server may have; None: 2, and up to 8 if they are small and
            quick.
        make_limit_s: Limit in seconds for one batch of the function, including all loading before the first one.
        convert, allocate: See `tfhet.torch`.

    Raises:
        UsageError: Other hosts cannot find or call the function.
    """
    job = job or JobContext.from_env(environment())
    options: dict[str, Any] = {"training": training, "ahead": ahead, "make_limit_s": make_limit_s, "job": job}
    options |= {"convert": convert, "allocate": allocate}
    if callable(data) and not hasattr(data, "element_spec"):
        options |= {"batch_size": batch_size, "shuffle": shuffle, "drop_last": drop_last, "collate": collate}
        return _begun(Loader(data, arguments or {}, **options), training)
    if arguments or batch_size or shuffle or drop_last or collate is not None:
        raise UsageError(
            "arguments, batch_size, shuffle, drop_last and collate are for a function; a tf.data.Dataset or a "
            "tfhet.Pipeline has batches already"
        )
    if isinstance(data, Pipeline) and is_loaded(data, job):
        return _begun(Loader.of_pipeline(data, **options), training)
    from tfhet.planes.distribution import distribute

    return _OfDataset(distribute(data, training=training, job=job), convert or (lambda batch: batch))


def _begun(loader: Loader, training: bool) -> Loader:
    if training:
        run_hooks(loader)
    return loader


class _OfDataset:
    def __init__(self, data: Any, convert: Callable[[Any], Any]):
        self._data, self._convert = data, convert

    def __iter__(self) -> Iterator[Any]:
        import tensorflow as tf

        for element in self._data:
            yield self._convert(tf.nest.map_structure(_array, element))

    def __len__(self) -> int:
        return len(self._data)


def _array(tensor: Any) -> Any:
    """Returns the tensor's memory as an array if possible, else a copy."""
    is_shared = tensor.dtype.is_numpy_compatible and tensor.dtype.name in _SHARED
    return np.from_dlpack(_Exported(tensor)) if is_shared else tensor.numpy()


_SHARED = frozenset(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64))


class _Exported:  # for `numpy.from_dlpack`
    def __init__(self, tensor: Any):
        self._tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        import tensorflow as tf

        return tf.experimental.dlpack.to_dlpack(self._tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0
