"""Stages that hold other stages and draw, for each image, what is applied: one_of and probability."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tfhet.extras import tensorflow as tf
from tfhet.source import ArraySpec
from tfhet.stages import randomness
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Array, Fraction, Stage
from tfhet.stages.stream import Stream

Part = Callable[[Array, Array], Array]
"""Function from ([some, ...] of the values, their places int32 [some]) to [some, ...]."""


def dealt_out(values: Array, choice: Array, parts: Sequence[Part]) -> Array:
    """Returns [batch, ...] in which each row of values is the result of the part that `choice` names. choice: int32
    [batch], from 0 to below the number of parts, which all return rows of one shape and dtype."""
    if isinstance(values, np.ndarray):
        choice = np.asarray(choice)
        drawn = [(np.flatnonzero(choice == at), part) for at, part in enumerate(parts) if (choice == at).any()]
        made = [(places, part(values[places], places)) for places, part in drawn]
        joined = np.empty((len(values), *made[0][1].shape[1:]), made[0][1].dtype) if made else values
        for places, result in made:
            joined[places] = result
        return joined
    # Each image is copied twice: 11 us for a 224x224 RGB image of uint8, where a tf.where takes 55.
    places = tf.dynamic_partition(tf.range(tf.shape(values)[0]), choice, len(parts))
    results = [part(tf.gather(values, at), at) for part, at in zip(parts, places, strict=True)]
    joined = tf.dynamic_stitch(places, results)
    joined.set_shape([None, *results[0].shape[1:]])
    return joined


def chosen(draws: Array, shares: Sequence[float]) -> Array:
    """Returns int32 [batch], i with probability shares[i]. draws: float32 [batch], uniform from 0 to below 1."""
    ends = np.array(list(itertools.accumulate(shares))[:-1], np.float32)
    if isinstance(draws, np.ndarray):
        return (draws[:, np.newaxis] >= ends).sum(axis=1).astype(np.int32)
    return tf.reduce_sum(tf.cast(draws[:, tf.newaxis] >= ends, tf.int32), axis=1)


def routed(
    branches: Sequence[Stage | None],
    values: Array,
    parameters: Mapping[str, Array],
    run: Callable[[Stage, Array, Mapping[str, Array]], Array],
) -> Array:
    """Returns [batch, ...]: what `run` makes of each row by the branch that was drawn for it, and its parameters."""

    def part(at: int, branch: Stage | None) -> Part:
        if branch is None:
            return lambda some, places: some
        before = prefix(branch, at)
        own = {name.removeprefix(before): value for name, value in parameters.items() if name.startswith(before)}
        return lambda some, places: run(branch, some, {name: _picked(v, places) for name, v in own.items()})

    return dealt_out(values, parameters["choice"], [part(at, branch) for at, branch in enumerate(branches)])


def _picked(values: Array, places: Array) -> Array:
    return values[places] if isinstance(values, np.ndarray) else tf.gather(values, places)


def prefix(branch: Stage, at: int) -> str:
    """Returns what comes before the names of a branch's own parameters."""
    return f"{branch.name}:{at}/"


def branch_word(branch: Stage, at: int) -> int:
    """Returns the word of 64 bits from which, with the key of an example, the key of a branch derives."""
    digest = hashlib.blake2b(f"{branch.name}/{at}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class Choice(Stage):
    """Each image goes through one of `branches`. Each branch works only on the images that drew it."""

    @property
    def branches(self) -> tuple[Stage | None, ...]:
        """The stages to choose from for each image; None leaves an image unchanged."""
        raise NotImplementedError

    @property
    def shares(self) -> tuple[float, ...]:
        """Probability of each branch; they sum to 1."""
        raise NotImplementedError

    def check_branches(self) -> None:
        """Raises UsageError for a branch that is not a stage of images."""
        for stage in self._stages:
            if not isinstance(stage, Stage):
                self.refuse(f"chooses among stages like posterize(4), not {stage!r}")
            if isinstance(stage, Stream):
                self.refuse(f"{stage.name} sets the flow of all examples: it cannot be chosen for single images")

    @property
    def _stages(self) -> tuple[Stage, ...]:
        return tuple(branch for branch in self.branches if branch is not None)

    @property
    def keeps_shape(self) -> bool:
        return all(stage.keeps_shape for stage in self._stages)

    @property
    def keeps_range(self) -> bool:
        return all(stage.keeps_range for stage in self._stages)

    @property
    def commutes_with_rescale(self) -> bool:
        return all(stage.commutes_with_rescale for stage in self._stages)

    @property
    def relabels(self) -> bool:
        return any(stage.relabels for stage in self._stages)

    def spec(self, spec: ImageSpec) -> ImageSpec:
        for stage in self._stages:
            stage.admit(spec)
        given = [spec if branch is None else branch.spec(spec) for branch in self.branches]
        for branch, other in zip(self.branches, given, strict=True):
            if other != given[0]:
                pair = self.branches[0], branch
                first, differing = ("leaving an image unchanged" if each is None else each.name for each in pair)
                self.refuse(f"{first} gives {given[0]}, but {differing} gives {other}: they must agree")
        return given[0]

    def label_spec(self, spec: ArraySpec) -> ArraySpec:
        given = [spec if branch is None else branch.label_spec(spec) for branch in self.branches]
        if any(other != given[0] for other in given):
            self.refuse(f"labels would be {' or '.join(map(str, given))}: they must agree")
        return given[0]

    def config(self) -> dict[str, Any]:
        return {}  # the branches are stages: see `core_text`

    @property
    def is_compiled(self) -> bool:
        return super().is_compiled and all(stage.is_compiled for stage in self._stages)

    def parameters(self, keys: Array, spec: ImageSpec) -> dict[str, Array]:
        """Returns `choice`, int32 [batch], the number of the branch, and the branches' own parameters, drawn for all
        images, from a key for each branch: `STAGE:BRANCH/PARAMETER`."""
        if self.is_compiled:
            return super().parameters(keys, spec)
        drawn = {"choice": chosen(randomness.uniform(keys, 0), self.shares)}
        for at, branch in enumerate(self.branches):
            if branch is not None and branch.random:
                word = branch_word(branch, at)
                is_array = isinstance(keys, np.ndarray)
                own_keys = randomness.absorb(keys, np.uint64(word) if is_array else tf.constant(word, tf.uint64))
                own = branch.parameters(own_keys, spec)
                drawn.update({f"{prefix(branch, at)}{name}": value for name, value in own.items()})
        return drawn

    def apply(self, images: Array, parameters: Mapping[str, Array]) -> Array:
        if self.is_compiled:
            return super().apply(images, parameters)
        return routed(self.branches, images, parameters, lambda branch, part, own: branch.apply(part, own))

    def labels(self, labels: Array, parameters: Mapping[str, Array]) -> Array:
        return routed(self.branches, labels, parameters, lambda branch, part, own: branch.labels(part, own))


@register("one_of")
class OneOf(Choice):
    """Each image goes through one stage that is drawn for it: `one_of(posterize(4), solarize(128))`.

    Each stage works only on the images that drew it. The stages must agree on shape, dtype and range.
    """

    stages: tuple[Stage, ...]
    """Stages to choose from, at least two; any stages of images, also random ones."""
    weights: tuple[float, ...] = ()
    """Relative probability of each stage, in any unit: `weights=(3, 1)`. Empty: all are equally likely."""

    variadic: ClassVar[str] = "stages"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.stages, (tuple, list)) or len(self.stages) < 2:
            self.refuse(f"chooses among at least two stages, not {self.stages!r}")
        weights = self.weights
        numbers = isinstance(weights, (tuple, list)) and all(type(n) in (int, float) for n in weights)
        if not numbers or not all(0.0 <= n < math.inf for n in weights) or (weights and not sum(weights) > 0.0):
            self.refuse(f"weights are numbers from 0, not all of them 0; not {weights!r}")
        if weights and len(weights) != len(self.stages):
            self.refuse(f"{len(weights)} weights for {len(self.stages)} stages")
        object.__setattr__(self, "stages", tuple(self.stages))
        object.__setattr__(self, "weights", tuple(float(n) for n in weights))
        self.check_branches()

    @property
    def branches(self) -> tuple[Stage | None, ...]:
        return self.stages

    @property
    def shares(self) -> tuple[float, ...]:
        weights = self.weights or (1.0,) * len(self.stages)
        return tuple(weight / sum(weights) for weight in weights)


@register("probability")
class Probability(Choice):
    """Each image goes through the stage with a probability: `probability(gaussian_blur(5, 1.0), 0.5)`.

    An image that is not chosen costs a copy. The stage must keep shape, dtype and range.
    """

    stage: Stage
    """Stage that is applied; any stage of images, also a random one."""
    p: Fraction = 0.5
    """Probability that it is applied to an image, from 0 to 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_branches()

    @property
    def branches(self) -> tuple[Stage | None, ...]:
        return None, self.stage

    @property
    def shares(self) -> tuple[float, ...]:
        return 1.0 - self.p, self.p
