"""Batches as PyTorch tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tfhet.extras import needed
from tfhet.pipeline import Pipeline
from tfhet.planes import batches

with needed("tfhet.torch"):
    import torch


def loader(data: Any, **options: Any) -> Iterable[Any]:
    """As `tfhet.batches`, whose options it has, with CPU tensors in place of arrays, in the same memory.

    Images of a `Pipeline` are [batch, channels, height, width] in PyTorch's memory format `channels_last`. Batches of a
    pipeline that runs natively, and batches from other processes, are in pinned memory where PyTorch has a GPU, so
    `tensor.to(device, non_blocking=True)` does not wait. Texts, and arrays of a dtype that PyTorch does not have, stay
    as they are. No copy is made, except of arrays that are read-only or run backwards.
    """
    pinned = {"allocate": _pinned} if torch.cuda.is_available() else {}
    convert = _of_pipeline if isinstance(data, Pipeline) else tensors
    return batches(data, convert=convert, **{**pinned, **options})


def _of_pipeline(batch: Any) -> Any:
    if not isinstance(batch, tuple):
        return tensors(batch.transpose(0, 3, 1, 2))
    images, *others = batch
    return (tensors(images.transpose(0, 3, 1, 2)), *map(tensors, others))


def tensors(batch: Any) -> Any:
    """A batch with tensors in place of its arrays, in the same memory."""
    if isinstance(batch, np.ndarray):
        try:
            # What is read-only is shared with other processes, where a write in place would be a segmentation fault;
            # and PyTorch has no tensors that run backwards.
            is_usable = batch.flags.writeable and min(batch.strides, default=0) >= 0
            return _of_its_owner(batch if is_usable else batch.copy())
        except TypeError:
            return batch
    if isinstance(batch, Mapping):
        return {key: tensors(value) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(map(tensors, batch))
    return list(map(tensors, batch)) if isinstance(batch, list) else batch


def _of_its_owner(array: np.ndarray) -> torch.Tensor:
    """The array as a tensor; a view of the tensor whose memory it lies in, if there is one. PyTorch gives pinned memory
    out again once no copy to a device is under way, and knows such a copy by the storage that it was read from: the
    memory as a whole, of which a tensor made of the array alone would not be known to be a part."""
    made: torch.Tensor = torch.from_numpy(array)
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if not isinstance(owner, torch.Tensor):
        return made
    begin, odd = divmod(made.data_ptr() - owner.untyped_storage().data_ptr(), made.element_size())
    return made if odd else made.new_empty(0).set_(owner.untyped_storage(), begin, made.shape, made.stride())


def _pinned(size: int) -> np.ndarray:
    """Memory that devices read without the CPU, uint8 [size]. PyTorch reuses it after copies to devices have ended."""
    return torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()
