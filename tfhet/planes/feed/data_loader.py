"""The attributes of a DataLoader of PyTorch that scripts and frameworks read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tfhet.errors import UsageError
from tfhet.pipeline import BatchMaker, Pipeline
from tfhet.planes.feed.dataset import make_dataset

if TYPE_CHECKING:
    import numpy as np

    from tfhet.planes.feed.source import FeedSource
    from tfhet.strategies import JobContext


class LikeDataLoader:
    """Base class of the loader."""

    source: FeedSource
    _job: JobContext
    pipeline: Pipeline | None
    _allocate: Callable[[int], np.ndarray] | None
    num_workers = 0
    timeout = 0.0
    persistent_workers = in_order = False
    pin_memory_device = ""
    generator = multiprocessing_context = prefetch_factor = worker_init_fn = None

    def __len__(self) -> int:
        raise NotImplementedError

    def set_epoch(self, epoch: int) -> None:
        raise NotImplementedError

    @functools.cached_property
    def dataset(self) -> Any:
        """The map-style dataset, made in this process at the first use, with all examples. Raises AttributeError for an
        iterable of batches."""
        if not self.source.batch_size:
            raise AttributeError(f"{self.source} returns batches, so its loader has no dataset")
        return make_dataset(self.source, self._job.seed) if self.pipeline is None else BatchMaker(self.pipeline)

    @property
    def batch_size(self) -> int | None:
        return self.source.batch_size or None

    @property
    def drop_last(self) -> bool:
        return self.source.drop_last

    @property
    def pin_memory(self) -> bool:
        return self._allocate is not None

    @property
    def collate_fn(self) -> Callable[..., Any]:
        return self.source.collated

    @property
    def sampler(self) -> _Sampler:
        return _Sampler(self)

    @property
    def batch_sampler(self) -> _BatchSampler | None:
        return _BatchSampler(self) if self.source.batch_size else None


class _OfDataHosts:
    """What scripts read of a sampler, without its indices: the data hosts draw them."""

    def __init__(self, loader: LikeDataLoader):
        self._loader, self.set_epoch = loader, loader.set_epoch

    def __iter__(self) -> Iterator[Any]:
        raise UsageError(
            f"the data hosts draw the indices of {self._loader.source}; to continue within an epoch, use the loader's "
            "load_state_dict() instead of skipping batches"
        )


class _Sampler(_OfDataHosts):
    """For scripts that read `len(loader.sampler)`, the number of this rank's examples, or set its epoch."""

    def __len__(self) -> int:
        loader = self._loader
        return min(len(loader) * loader.source.batch_size, len(loader.dataset))


class _BatchSampler(_OfDataHosts):
    """For scripts that read `loader.batch_sampler`."""

    def __init__(self, loader: LikeDataLoader):
        super().__init__(loader)
        self.sampler, self.batch_size, self.drop_last = loader.sampler, loader.batch_size, loader.drop_last

    def __len__(self) -> int:
        return len(self._loader)
