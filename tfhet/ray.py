"""tfhet's stages in Ray Data: the same images as in a `tfhet.Pipeline`, for the same ids. Needs no TensorFlow.

import ray
import tfhet.ray

stages = tfhet.ray.stages("random_flip(); rescale()", seed=1)
images = ray.data.read_parquet("...").map_batches(stages, batch_size=64)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfhet.errors import UsageError

if TYPE_CHECKING:
    from tfhet.stages import CompiledChain, Stage

Batch = dict[str, np.ndarray]
DATA_HOSTS_FIRST: Mapping[str, Any] = {
    "label_selector": {"tfhet-role": "data"},
    "fallback_strategy": [{"label_selector": {"tfhet-role": "!data"}}],
}
"""Arguments of `Dataset.map_batches`, and options of tasks: they run on data hosts as long as those have free CPUs, and
else on the other hosts that offer some."""


def stages(
    chain: str | Sequence[Stage] | CompiledChain,
    *,
    seed: int = 0,
    epoch: int = 0,
    image: str = "image",
    label: str = "label",
    id: str = "id",
) -> Callable[[Batch], Batch]:
    """Returns a function for `Dataset.map_batches` that runs a chain of stages on the images of a batch.

    An example is augmented alike in any batch, on any host, and in a `Pipeline` with the same seed. Stages that mix
    images (mixup, cutmix) mix within the batch. The function runs on as many threads as its task has CPUs.

    Args:
        chain: Stages, text as `tfhet.stages.parse` reads it, or a compiled chain.
        seed: Seed of the run.
        epoch: Number of the epoch.
        image: Column of the images: uint8 or float32 [rows, height, width, channels], or bytes of image files [rows]
            for a chain that begins with `decode`.
        label: Column of the labels, which some stages change. It may be missing. All other columns stay.
        id: Column of the example ids, int64 [rows], from which, with `seed` and `epoch`, random numbers derive.

    Raises:
        UsageError: A stage or argument does not exist; or, in the task, columns do not fit the chain.
    """
    from tfhet.stages import CompiledChain, compile as compiled

    run = chain if isinstance(chain, CompiledChain) else compiled(chain)
    drawing = ", ".join(stage.name for stage in run.stages if stage.random)
    relabelling = ", ".join(stage.name for stage in run.stages if stage.relabels)

    def tfhet_stages(batch: Batch) -> Batch:
        if image not in batch:
            raise UsageError(f"the batch has no column {image!r}, only {', '.join(sorted(batch))}; name it by image=")
        images, labels, ids = batch[image], batch.get(label), batch.get(id)
        if ids is None and drawing:
            raise UsageError(
                f"{drawing} draws random numbers, which derive from ids: give the data set an int64 column `{id}`"
            )
        if labels is None and relabelling:
            raise UsageError(f"{relabelling} changes labels: give the data set a column `{label}`")
        is_encoded = images.dtype.hasobject or images.dtype.kind == "S"
        given = images.tolist() if is_encoded else images
        made = run(given, ids=ids, seed=seed, epoch=epoch, labels=labels, threads=_cpus())
        columns = {image: made} if labels is None else dict(zip((image, label), made, strict=True))
        return {**batch, **columns}

    return tfhet_stages


def _cpus() -> int:
    """Returns the number of CPUs of this process's task; 1 outside of Ray."""
    try:
        import ray
    except ImportError:
        return 1
    if not ray.is_initialized():
        return 1
    return max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
