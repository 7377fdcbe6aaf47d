"""tfhet's stages in Ray Data: the same pictures as in a `tfhet.Pipeline`, for the same ids.

import ray, tfhet.ray

ds = ray.data.read_parquet("...").map_batches(tfhet.ray.stages("random_flip(); rescale()", seed=1), batch_size=64)
"""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfhet.errors import UsageError

Batch = dict[str, np.ndarray]
DATA_HOSTS_FIRST: Mapping[str, Any] = {
    "label_selector": {"tfhet-role": "data"},
    "fallback_strategy": [{"label_selector": {"tfhet-role": "!data"}}],
}
"""Arguments of `Dataset.map_batches`, and options of tasks: they run on data hosts as long as those have free CPUs, and
else on the other hosts that offer some."""


def stages(
    chain: str, *, seed: int = 0, epoch: int = 0, image: str = "image", label: str = "label", id: str = "id"
) -> Callable[[Batch], Batch]:
    """A function for `Dataset.map_batches` that runs a chain of stages on the images of a batch.

    Columns: `image`, uint8 or float32 [rows, height, width, channels], or bytes of image files [rows] for a chain that
    begins with decode; `label`, if there is one, which some stages change; `id`, int64 [rows], from which, with `seed`
    and `epoch`, random numbers derive: an example is augmented alike in any batch, on any host, and in a Pipeline with
    the same seed. All other columns stay. Stages that mix neighbours (mixup, cutmix) mix within the batch.

    It runs on as many threads as the task has CPUs. Raises UsageError for a chain that does not exist, and, in the
    task, for columns that do not fit it."""
    from tfhet import stages as stage_room

    given = stage_room.text(stage_room.parse(chain))  # what is wrong is said where it is written

    def tfhet_stages(batch: Batch) -> Batch:
        columns = {"image": image, "label": label, "id": id}
        found = {name: batch[column] for name, column in columns.items() if column in batch}
        if "image" not in found:
            raise UsageError(f"the batch has no column {image!r}, only {', '.join(sorted(batch))}; name it by image=")
        return {**batch, **{columns[name]: array for name, array in _run(given, seed, epoch, found).items()}}

    return tfhet_stages


def _run(chain: str, seed: int, epoch: int, given: Batch) -> Batch:
    _limit_threads()
    import tensorflow as tf

    images, labels, ids = given["image"], given.get("label"), given.get("id")
    is_encoded = images.dtype.hasobject or images.dtype.kind == "S"
    image = (tuple(images.shape[1:]), "string" if is_encoded else images.dtype.name)
    label = None if labels is None else (tuple(labels.shape[1:]), labels.dtype.name)
    prepare, draws = _prepared(chain, seed, epoch, image, label)
    if ids is None and draws:
        raise UsageError(f"{draws} draws random numbers, which derive from ids: give the data set an int64 column `id`")
    numbers = np.zeros(len(images), np.int64) if ids is None else ids
    records = {"image": tf.constant(images.tolist(), tf.string) if is_encoded else tf.constant(images)}
    if labels is not None:
        records["label"] = tf.constant(labels)
    with _without_constant_folding():
        made = prepare(tf.constant(numbers, tf.int64), records)
    return {name: made[name].numpy() for name in records}


@contextlib.contextmanager
def _without_constant_folding() -> Iterator[None]:
    """A block in which functions run as those of tf.data, whose graphs are not folded: a folded division is a product
    with the inverse, and one of some thousand values comes out one grey level apart (TensorFlow 2.15.1)."""
    import tensorflow as tf

    before = tf.config.optimizer.get_experimental_options().get("constant_folding", True)
    tf.config.optimizer.set_experimental_options({"constant_folding": False})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"constant_folding": before})


@functools.lru_cache(maxsize=16)
def _prepared(
    chain: str, seed: int, epoch: int, image: tuple[tuple[int, ...], str], label: tuple[tuple[int, ...], str] | None
) -> tuple[Callable[..., Any], str]:
    """The stages as a function of ids and records, and the names of those that draw random numbers."""
    import tensorflow as tf

    from tfhet.placement import Pipeline, preparation

    specs = {"image": tf.TensorSpec([None, *image[0]], image[1])}
    if label is not None:
        specs["label"] = tf.TensorSpec([None, *label[0]], label[1])
    atexit.register(_prepared.cache_clear)  # functions of TensorFlow must not outlive it
    pipeline = Pipeline(_Columns(specs), chain, seed=seed)  # type: ignore[arg-type]
    signature = [tf.TensorSpec([None], tf.int64), specs]
    run = tf.function(preparation(pipeline, epoch), input_signature=signature, autograph=False)
    return run, ", ".join(placed.stage.name for placed in pipeline.placed() if placed.stage.random)


@dataclass(frozen=True)
class _Columns:
    """The columns of a batch as the source of a pipeline of which only the stages run."""

    spec: dict[str, Any]
    name: str = "Ray Data"

    def parse(self, records: dict[str, Any]) -> dict[str, Any]:
        return dict(records)


@functools.cache
def _limit_threads() -> None:
    """Gives TensorFlow as many threads as the task of this process has CPUs, and no GPU, unless it runs already."""
    try:
        import ray
    except ImportError:
        return
    if not ray.is_initialized():
        return
    import tensorflow as tf

    cpus = max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(cpus)
        tf.config.threading.set_inter_op_parallelism_threads(cpus)
        tf.config.set_visible_devices([], "GPU")
