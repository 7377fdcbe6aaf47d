"""A source of random images: every byte is a hash of the example's id."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from tfhet.errors import UsageError
from tfhet.extras import tensorflow as tf
from tfhet.source.array_spec import ArraySpec
from tfhet.source.source import BadRecord, checked_ids, example_id, position_of, split_of
from tfhet.source.splitmix import GAMMA, mix


@dataclass(frozen=True)
class SyntheticSource:
    """Noise images with random labels, for measuring input pipelines and for audits.

    They cost little CPU, and one id gives the same image in every process and batch. Labels are independent of the
    images, so a network cannot learn from them. Raises UsageError for counts that are not positive.
    """

    examples: int
    """Number of examples in all splits."""
    splits: int
    """Number of parts of equal size, or with `uneven` growing to twice the mean."""
    shape: Sequence[int] = (32, 32, 3)
    """Height, width and channels."""
    classes: int = 10
    seed: int = 0
    uneven: bool = False

    name: ClassVar[str] = "synthetic"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        if min(self.examples, self.splits, self.classes, *self.shape) < 1 or len(self.shape) != 3:
            raise UsageError(
                "a synthetic source needs at least 1 example, split and class, and a shape of 3 lengths; not"
                f" {self.examples} examples, {self.splits} splits, {self.classes} classes, shape {self.shape}"
            )

    def split_sizes(self) -> tuple[int, ...]:
        shares = range(1, self.splits + 1) if self.uneven else [1] * self.splits
        ends = [self.examples * share // sum(shares) for share in itertools.accumulate(shares, initial=0)]
        return tuple(end - start for start, end in itertools.pairwise(ends))

    def split_count(self) -> int:
        return self.splits

    def example_count(self) -> int:
        return self.examples

    def sizes(self) -> np.ndarray:
        return np.array(self.split_sizes(), np.int64)

    def can_load(self) -> bool:
        return True

    def load(self, ids: np.ndarray) -> dict[str, Any]:
        """Returns image uint8 [n, *shape] and label int64 [n], the same as `parse`. ids: int64 [n]."""
        size = math.prod(self.shape)
        with np.errstate(over="ignore"):
            states = mix(ids.view(np.uint64) + np.uint64(self._state))
            words = mix(states[:, None] + np.arange(1, -(-size // 8) + 1, dtype=np.uint64) * np.uint64(GAMMA))
        pixels = words.view(np.uint8)[:, :size].reshape(-1, *self.shape)
        labels = mix(states) % np.uint64(self.classes)
        return {"image": np.ascontiguousarray(pixels), "label": labels.astype(np.int64)}

    def read(self, split: tf.Tensor) -> tf.data.Dataset:
        """Returns (position, id): the record of a synthetic example is its int64 id."""
        size = tf.gather(tf.constant(self.split_sizes(), tf.int64), split)
        first = example_id(tf.cast(split, tf.int64), tf.constant(0, tf.int64))
        return tf.data.Dataset.range(first, first + size).enumerate()

    def read_at(self, ids: Sequence[int] | np.ndarray) -> tf.data.Dataset:
        numbers = checked_ids(ids, self.splits)
        return tf.data.Dataset.from_tensor_slices((split_of(numbers), position_of(numbers), numbers))

    def places(self, ids: Sequence[int] | np.ndarray) -> list[tuple[str, int]]:
        return [("", 0)] * len(checked_ids(ids, self.splits))

    def parse(self, records: tf.Tensor) -> dict[str, tf.Tensor]:
        """Turns records, int64 [batch] ids, into image uint8 [batch, *shape] and label int64 [batch]."""
        size = math.prod(self.shape)
        # An array, not a list: TF 2.21 takes a list with numbers on both sides of 2**63 through float64 in a graph.
        words = tf.constant(np.arange(1, -(-size // 8) + 1, dtype=np.uint64) * np.uint64(GAMMA))
        states = mix(tf.bitcast(records, tf.uint64) + tf.constant(self._state, tf.uint64))
        pixels = tf.bitcast(mix(states[:, tf.newaxis] + words), tf.uint8)
        image = tf.reshape(tf.reshape(pixels, [-1, words.shape[0] * 8])[:, :size], [-1, *self.shape])
        label = tf.cast(mix(states) % tf.constant(self.classes, tf.uint64), tf.int64)
        return {"image": image, "label": label}

    @property
    def spec(self) -> dict[str, ArraySpec]:
        return {"image": ArraySpec((None, *self.shape), "uint8"), "label": ArraySpec((None,), "int64")}

    @property
    def _state(self) -> int:
        digest = hashlib.blake2b(f"synthetic/{self.seed}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little")

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> SyntheticSource:
        return cls(**document)

    def fingerprint(self) -> str:
        what = f"synthetic {self.examples} {self.splits} {self.shape} {self.classes} {self.seed} {self.uneven}"
        return hashlib.blake2b(what.encode(), digest_size=16).hexdigest()

    def check(self) -> None:
        """Does nothing: no file can be missing."""

    def damages(self) -> tuple[BadRecord, ...]:
        return ()
