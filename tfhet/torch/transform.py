"""`tfhet.torch.stages(chain)`: a chain of stages as a function of images that returns tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfhet.errors import UsageError
from tfhet.extras import needed
from tfhet.stages import Choice, CompiledChain, Stage, WithPartner, compile as compiled
from tfhet.torch.batches import tensors
from tfhet.torch.images import Batch, batch_of, sizes

with needed("tfhet.torch"):
    import torch


def stages(
    chain: str | Sequence[Stage] | CompiledChain,
    *,
    seed: int = 0,
    epoch: int = 0,
    channels_last: bool = False,
    threads: int = 1,
    float_range: tuple[float, float] | None = (0.0, 1.0),
) -> Stages:
    """Returns a chain of stages as a function of images that returns tensors, for a `Dataset` or a `collate_fn`.

    Args:
        chain: Stages, text as `tfhet.stages.parse` reads it, or a compiled chain.
        seed: Seed of the run.
        epoch: Number of the first epoch; `set_epoch` changes it.
        channels_last: Whether results have PyTorch's memory format `channels_last`, which needs no copy. The shape is
            [batch, channels, height, width] in both cases.
        threads: Number of threads that work on a batch. Keep 1 in the workers of a `DataLoader`.
        float_range: Lowest and highest value of float32 images: (0, 1) as in torchvision, or None if they are unknown.
            A compiled chain has its own.

    Raises:
        UsageError: A stage or argument does not exist, or a stage sets the flow of a pipeline.
    """
    if not isinstance(chain, CompiledChain):
        chain = compiled(chain, float_range=float_range)
    return Stages(chain, seed, epoch, channels_last, threads)


class Stages:
    """A chain of stages on PyTorch's tensors, image files, PIL images and arrays.

    The result of an example depends on its seed, epoch and id alone, and equals the result in every framework. The
    object can be pickled. Workers of a `DataLoader` may use it, whether they are forked or spawned.
    """

    def __init__(self, chain: CompiledChain, seed: int, epoch: int, channels_last: bool, threads: int) -> None:
        self.chain, self.seed, self.channels_last, self.threads = chain, seed, channels_last, threads
        self._mixing = ", ".join(stage.name for stage in chain.stages if _mixes(stage))
        # In shared memory, so that workers read the next epoch, also persistent workers.
        self._shared_epoch = torch.tensor([epoch], dtype=torch.int64).share_memory_()
        self._epoch = self._shared_epoch.numpy()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_epoch"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._shared_epoch = self._shared_epoch.share_memory_()
        self._epoch = self._shared_epoch.numpy()

    def __repr__(self) -> str:
        return f"tfhet.torch.stages({self.chain!r}, seed={self.seed}, epoch={self.epoch})"

    @property
    def epoch(self) -> int:
        """Number of the epoch from which random numbers derive."""
        return int(self._epoch[0])

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the epoch, also in the workers of a `DataLoader`. Call it before each iteration."""
        self._epoch[0] = epoch

    def __call__(
        self, images: Any, *, id: int | None = None, ids: Any = None, labels: Any = None, epoch: int | None = None
    ) -> Any:
        """Runs the chain on one image or on a batch.

        Args:
            images: The content of an image file, a PIL image, uint8 or float32 [channels, height, width], or an array
                [height, width, channels]; a list of one of these; a tensor [batch, channels, height, width]; or an
                array [batch, height, width, channels].
            id: Example id of one image, from which random numbers derive.
            ids: Example ids of a batch, int64 [batch].
            labels: [batch, ...], or the label of one image, changed by stages such as `one_hot` and `mixup`.
            epoch: Number of the epoch, or int64 [batch]; None for the number of `set_epoch`.

        Returns:
            uint8 or float32 [channels, height, width] for one image, [batch, channels, height, width] for a batch; with
            `labels`, a pair of images and labels.

        Raises:
            UsageError: Images, ids or labels do not fit the chain, or a file cannot be decoded.
        """
        batch, is_one = batch_of(images)
        call = {"ids": self._numbers(len(batch), is_one, id, ids), "epoch": self.epoch if epoch is None else epoch}
        if labels is not None:
            array = np.asarray(labels.numpy() if isinstance(labels, torch.Tensor) else labels)
            call["labels"] = array[np.newaxis] if is_one else array
        try:
            made, given = self._run(batch, call, not is_one and torch.utils.data.get_worker_info() is not None)
        except UsageError as error:
            if id is None:
                raise
            raise UsageError(f"image with id {id}: {error}") from None
        if is_one:
            made, given = made[0], None if given is None else given[0]
        return tensors(made) if labels is None else (tensors(made), tensors(np.asarray(given)))

    def _numbers(self, size: int, is_one: bool, id: int | None, ids: Any) -> np.ndarray | None:
        """Returns the ids of a batch, int64 [batch]."""
        if not is_one:
            if id is not None:
                raise UsageError(f"id= is for one image, and there is a batch of {size}: pass ids=")
            return None if ids is None else np.asarray(ids, np.int64)
        if ids is not None:
            raise UsageError("ids= is for a batch, and there is one image: pass id=")
        if self._mixing:
            raise UsageError(f"{self._mixing} mixes the images of a batch: call the chain in collate_fn, with ids=")
        if id is None and self.chain.random:
            raise UsageError(
                "random numbers derive from the id of an example: pass id=, such as the index in the Dataset"
            )
        return None if id is None else np.array([id], np.int64)

    def _run(self, batch: Batch, call: dict[str, Any], in_worker: bool = False) -> tuple[np.ndarray, Any]:
        """Returns images [batch, channels, height, width], and labels. in_worker: whether they leave this process."""
        if isinstance(batch, list) and batch and isinstance(batch[0], np.ndarray):
            return self._of_many_sizes(batch, call)
        out = self._shared_out(batch) if in_worker and self.channels_last else None
        made = self.chain(batch, seed=self.seed, threads=self.threads, out=out, **call)  # type: ignore[arg-type]
        made, labels = made if "labels" in call else (made, None)
        planes = made.transpose(0, 3, 1, 2)
        if self.channels_last:
            return planes, labels
        copied = _shared(planes.shape, made.dtype.name) if in_worker else np.empty(planes.shape, made.dtype)
        np.copyto(copied, planes)
        return copied, labels

    def _shared_out(self, batch: Any) -> np.ndarray | None:
        """Returns shared memory for the result, [batch, height, width, channels]; None if its size is not known."""
        made = self.chain.output(batch)
        if made.height is None or made.width is None:
            return None
        return _shared((len(batch), made.height, made.width, made.channels), made.dtype)

    def _of_many_sizes(self, images: Sequence[np.ndarray], call: dict[str, Any]) -> tuple[np.ndarray, Any]:
        if self._mixing:
            raise UsageError(
                f"{self._mixing} mixes images of one size, but the batch has {sizes(images)}: resize before"
            )
        parts = []
        for at, image in enumerate(images):
            one = slice(at, at + 1)
            own = {name: value[one] for name, value in call.items() if np.ndim(value)}
            parts.append(self._run(image[np.newaxis], {**call, **own}))
        made = [image for image, _ in parts]
        if len({image.shape for image in made}) > 1:
            raise UsageError(f"the images of the batch have {sizes(images)}, also after the stages: add a resize")
        return np.concatenate(made), np.concatenate([label for _, label in parts]) if "labels" in call else None


def _mixes(stage: Stage | None) -> bool:
    """Whether a stage mixes the images of a batch."""
    return any(map(_mixes, stage.branches)) if isinstance(stage, Choice) else isinstance(stage, WithPartner)


def _shared(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Returns memory of undefined content that a worker of a DataLoader hands over without a copy."""
    made = torch.empty(0, dtype=getattr(torch, dtype))
    storage = torch.UntypedStorage._new_shared(int(np.prod(shape)) * made.element_size(), device="cpu")
    array: np.ndarray = made.set_(storage, 0, shape).numpy()
    return array
