"""`tfhet.batches(data)`: the batches of any source as NumPy arrays, for any framework.

for batch in tfhet.batches(make_loader):       # a function: --data_plane feed runs it on the hosts that serve
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
from tfhet.planes.feed.loader import Loader
from tfhet.planes.feed.server_link import MAKE_LIMIT_S
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
    """This rank's share of the batches of `data`, an epoch in each iteration.

    data: a function at the top level of a module, called as `data(shard, **arguments)` on the hosts that serve, or in
    this process where none does. `shard` has index, count, epoch and seed. Without `batch_size` the function returns an
    iterable of the batches of its shard: a PyTorch DataLoader, a generator. With `batch_size` it returns a map-style
    dataset of all examples (__len__ and __getitem__): the feed makes batches of it, each example in one of them, by
    `collate` or by stacking. What either draws from the global generators of Python, NumPy or PyTorch is seeded by run,
    epoch and batch (or shard). Or a tf.data.Dataset or tfhet.Pipeline, which `tfhet.distribute` shares out.

    Batches are nests of dicts, lists and tuples with NumPy arrays, numbers, texts and bytes; arrays lie in memory that
    is used again once nothing refers to them.

    training: all ranks get the same number of batches, and fewer batches than there are ranks are left over in an
    epoch; False: each batch comes once, to one of the ranks. ahead: batches of this rank that each server may have
    in work, on the way or waiting; None: 2, and up to 8 where they are small and made quickly.
    make_limit_s: maximum number of seconds that the function, or what it returned, may take for one batch, with all
    that it loads before the first. convert, allocate: see tfhet.torch. Raises UsageError for a function that other
    hosts cannot find or call."""
    job = job or JobContext.from_env(environment())
    if callable(data) and not hasattr(data, "element_spec"):
        options: dict[str, Any] = {"batch_size": batch_size, "shuffle": shuffle, "drop_last": drop_last}
        options |= {"convert": convert} if convert is not None else {}
        given: dict[str, Any] = {"collate": collate, "training": training, "ahead": ahead, "allocate": allocate}
        given |= {"make_limit_s": make_limit_s}
        loader = Loader(data, arguments or {}, job=job, **options, **given)
        if training:
            run_hooks(loader)
        return loader
    if arguments or batch_size or shuffle or drop_last or collate is not None:
        raise UsageError(
            "arguments, batch_size, shuffle, drop_last and collate are for a function; a tf.data.Dataset or a "
            "tfhet.Pipeline has batches already"
        )
    from tfhet.planes.distribution import distribute

    return _OfDataset(distribute(data, training=training, job=job), convert or (lambda batch: batch))


class _OfDataset:
    """The elements of a data set as arrays."""

    def __init__(self, data: Any, convert: Callable[[Any], Any]):
        self._data, self._convert = data, convert

    def __iter__(self) -> Iterator[Any]:
        import tensorflow as tf

        for element in self._data:
            yield self._convert(tf.nest.map_structure(_array, element))

    def __len__(self) -> int:
        """Raises TypeError for a length that is not known."""
        return len(self._data)


def _array(tensor: Any) -> Any:
    """The tensor's own memory as an array, where it can be had, for as long as the array lives."""
    return (
        np.from_dlpack(_Exported(tensor))
        if tensor.dtype.is_numpy_compatible and tensor.dtype.name in _SHARED
        else (tensor.numpy())
    )


_SHARED = frozenset(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64))


class _Exported:
    """A tensor for `numpy.from_dlpack`."""

    def __init__(self, tensor: Any):
        self._tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        import tensorflow as tf

        return tf.experimental.dlpack.to_dlpack(self._tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0
