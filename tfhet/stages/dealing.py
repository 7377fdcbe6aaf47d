"""Which part of a batch goes where: drawn for each image, dealt out, and put together again."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from tfhet.stages import randomness
from tfhet.stages.stage import Stage

Part = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""Function from ([some, ...] of the values, their places int32 [some]) to [some, ...]."""


def dealt_out(values: tf.Tensor, choice: tf.Tensor, parts: Sequence[Part]) -> tf.Tensor:
    """Returns [batch, ...] in which each row is the result of the part that `choice` names.

    values: [batch, ...]. choice: int32 [batch], from 0 to below the number of parts. All parts return rows of one shape
    and dtype. It copies each image twice: 11 us for a 224x224 RGB image of uint8, where a tf.where takes 55.
    """
    places = tf.dynamic_partition(tf.range(tf.shape(values)[0]), choice, len(parts))
    results = [part(tf.gather(values, at), at) for part, at in zip(parts, places, strict=True)]
    joined = tf.dynamic_stitch(places, results)
    joined.set_shape([None, *results[0].shape[1:]])
    return joined


def chosen(draws: tf.Tensor, shares: Sequence[float]) -> tf.Tensor:
    """Returns int32 [batch], i with probability shares[i]. draws: float32 [batch], uniform from 0 to below 1."""
    ends = tf.constant(list(itertools.accumulate(shares))[:-1], tf.float32)
    return tf.reduce_sum(tf.cast(draws[:, tf.newaxis] >= ends, tf.int32), axis=1)


def derived(keys: tf.Tensor, name: str, position: int) -> tf.Tensor:
    """Returns the keys, uint64 [batch], of a stage inside the one to which `keys` belong."""
    digest = hashlib.blake2b(f"{name}/{position}".encode(), digest_size=8).digest()
    return randomness.absorb(keys, tf.constant(int.from_bytes(digest, "little"), tf.uint64))


def routed(
    branches: Sequence[Stage | None],
    values: tf.Tensor,
    parameters: Mapping[str, tf.Tensor],
    run: Callable[[Stage, tf.Tensor, Mapping[str, tf.Tensor]], tf.Tensor],
) -> tf.Tensor:
    """Returns [batch, ...]: what `run` makes of each row by the branch that was drawn for it, and its parameters."""

    def part(at: int, branch: Stage | None) -> Part:
        if branch is None:
            return lambda some, places: some
        before = prefix(branch, at)
        own = {name.removeprefix(before): value for name, value in parameters.items() if name.startswith(before)}
        return lambda some, places: run(branch, some, {name: tf.gather(v, places) for name, v in own.items()})

    return dealt_out(values, parameters["choice"], [part(at, branch) for at, branch in enumerate(branches)])


def prefix(branch: Stage, at: int) -> str:
    """Returns what comes before the names of a branch's own parameters."""
    return f"{branch.name}:{at}/"
