"""The inputs of the jobs of `benchmarks.cluster`, alone in one process and served by the job's data plane.

- `pipeline`: a declared pipeline of tfhet.
- `example`: the same chain in plain TensorFlow, as AWS's TensorFlow example writes it.
- `digits`: the chain of AWS's PyTorch example in NumPy and SciPy. Images of MNIST's shape are normalised and blurred
  by a kernel of 11 x 11, as often as makes an image as expensive as the example's (about 2 ms of a vCPU).
- `declared-digits`: the same work as a declared pipeline of tfhet, which runs natively: images of MNIST's shape,
  normalised, and as many blurs by a kernel of 11 x 11.
- `images`: the work of C. Rand's article on Ray on SageMaker (September 2023) at a reduced size: ten Gaussian blurs
  of 64 x 64 images.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tfhet.pipeline import Pipeline

DIGIT_BLURS, DIGITS = 20, 60_000
IMAGE_BLURS, IMAGE_SIZE = 10, 64
BLOCKS, BLOCK_BATCHES = 300, 4
"""Blocks of an epoch of `images`, each made by one task of Ray, and batches per block. No epoch ends within a run."""


class Digits:
    """A map-style dataset of float32 [28, 28] images with class numbers."""

    def __init__(self) -> None:
        self._images = np.random.default_rng(0).integers(0, 255, (256, 28, 28), np.uint8)

    def __len__(self) -> int:
        return DIGITS

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        from scipy.ndimage import gaussian_filter  # type: ignore[import-untyped]

        image = (self._images[index % 256].astype(np.float32) / 255 - 0.1307) / 0.3081
        for _ in range(DIGIT_BLURS):
            image = gaussian_filter(image, np.random.uniform(0.1, 2.0), radius=5)
        return image, index % 10


def make_digits(shard: Any) -> Digits:
    """Returns the dataset that the feed serves."""
    return Digits()


def declared_digits(batch_size: int) -> Pipeline:
    from tfhet import Pipeline, SyntheticSource

    blurs = "; ".join(["gaussian_blur(11, 1.0)"] * DIGIT_BLURS)
    chain = f"rescale(); normalize((0.1307,), (0.3081,)); {blurs}"
    return Pipeline(SyntheticSource(DIGITS, 1, (28, 28, 1)), chain, batch_size, shuffle=True)


@functools.cache
def _images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (4, IMAGE_SIZE, IMAGE_SIZE, 3), np.uint8)


def blurred(ids: np.ndarray) -> dict[str, np.ndarray]:
    """Returns `image`, uint8 [n, 64, 64, 3], and `id`, int64 [n]."""
    from scipy.ndimage import gaussian_filter

    images = _images()[ids % len(_images())].astype(np.float32)
    for _ in range(IMAGE_BLURS):
        images = gaussian_filter(images, (0, 1, 1, 0), radius=(0, 5, 5, 0))
    return {"image": images.astype(np.uint8), "id": ids}


def blurred_block(block: dict[str, np.ndarray], batch_size: int) -> dict[str, np.ndarray]:
    """Returns the images of a block, made batch by batch."""
    parts = [blurred(block["id"][at : at + batch_size]) for at in range(0, len(block["id"]), batch_size)]
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def make_blocks(shard: Any, batch_size: int) -> Any:
    """Returns the Ray data set. Without a batch size of `map_batches`, Ray 2.60 reads and maps a block in one task."""
    import ray

    ids = ray.data.range(BLOCKS * BLOCK_BATCHES * batch_size, override_num_blocks=BLOCKS)
    return ids.map_batches(blurred_block, fn_kwargs={"batch_size": batch_size}, batch_size=None)


@dataclass(frozen=True)
class Load:
    """An input with its data. `channel` and `chain` are "" for inputs that make their data."""

    name: str
    channel: str
    chain: str
    batch_size: int

    def alone(self) -> Iterator[Any]:
        """Returns the batches without end, made in this process."""
        made: Callable[[Load], Iterator[Any]] = _ALONE[self.name]
        return made(self)

    def served(self) -> Iterator[Any]:
        """Returns the batches without end, as a training script reads them."""
        import tfhet

        if self.name == "example":
            from tfhet.planes.tf_service import Transport

            # AWS's example does not set the compression: the default of tf.data service is Snappy.
            return iter(tfhet.distribute(self.example(repeat=1), transport=Transport(compression="AUTO")))
        loader: Iterable[Any]
        if self.name == "images":
            loader = tfhet.batches(make_blocks, arguments={"batch_size": self.batch_size}, batch_size=self.batch_size)
        elif self.name == "declared-digits":
            loader = tfhet.batches(declared_digits(self.batch_size))
        else:
            loader = tfhet.batches(make_digits, batch_size=self.batch_size, shuffle=True)
        return itertools.chain.from_iterable(iter(loader) for _ in itertools.count())

    def pipeline(self) -> Pipeline:
        """Returns the declared pipeline, as the built-in trainer declares it."""
        from tfhet.pipeline import Pipeline
        from tfhet.source import TFRecordSource

        return Pipeline(TFRecordSource.from_directory(self.channel), self.chain, self.batch_size)

    def example(self, repeat: int) -> Any:
        """Returns the chain as a data set of plain TensorFlow. repeat: passes over the data, -1 without end."""
        from benchmarks.job_scripts import plain
        from tfhet import stages

        files = sorted(str(path) for path in Path(self.channel).glob("*.tfrecord*"))
        return plain.dataset(files, (32, 32, 3), stages.parse(self.chain), self.batch_size, repeat)


def _pipeline(load: Load) -> Iterator[Any]:
    from tfhet.pipeline import one_epoch

    return iter(one_epoch(load.pipeline(), None).repeat())


def _digits(load: Load) -> Iterator[np.ndarray]:
    digits = Digits()
    for first in itertools.count(step=load.batch_size):
        yield np.stack([digits[index][0] for index in range(first, first + load.batch_size)])


def _declared_digits(load: Load) -> Iterator[Any]:
    from tfhet.pipeline import BatchMaker

    maker = BatchMaker(declared_digits(load.batch_size))
    for epoch in itertools.count():
        order = maker.order(epoch)
        for begin in range(0, len(order), load.batch_size):
            yield maker.make(order[begin : begin + load.batch_size], epoch).value


def _blurred(load: Load) -> Iterator[dict[str, np.ndarray]]:
    for first in itertools.count(step=load.batch_size):
        yield blurred(np.arange(first, first + load.batch_size))


_ALONE: dict[str, Callable[[Load], Iterator[Any]]] = {
    "pipeline": _pipeline,
    "example": lambda load: iter(load.example(repeat=-1)),
    "digits": _digits,
    "declared-digits": _declared_digits,
    "images": _blurred,
}
