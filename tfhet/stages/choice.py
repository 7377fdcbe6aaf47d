"""A stage that holds other stages and draws, for each image, the one that is applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import randomness
from tfhet.stages.dealing import chosen, derived, prefix, routed
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage
from tfhet.stages.stream import Stream


class Choice(Stage):
    """Each image goes through one of `branches`. Each branch works only on the images that drew it."""

    random: ClassVar[bool] = True

    @property
    def branches(self) -> tuple[Stage | None, ...]:
        """Stages, one of which is applied to an image; None leaves the image unchanged."""
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
        for branch in self.branches:
            if branch is not None:
                branch.admit(spec)
        given = [spec if branch is None else branch.spec(spec) for branch in self.branches]
        for branch, other in zip(self.branches, given, strict=True):
            if other != given[0]:
                first, differing = (_named(each) for each in (self.branches[0], branch))
                self.refuse(f"{first} gives {given[0]}, but {differing} gives {other}: they must agree")
        return given[0]

    def label_spec(self, spec: tf.TensorSpec) -> tf.TensorSpec:
        given = [spec if branch is None else branch.label_spec(spec) for branch in self.branches]
        if any(other != given[0] for other in given):
            self.refuse(f"labels would be {' or '.join(f'{s.dtype.name} {s.shape}' for s in given)}: they must agree")
        return given[0]

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `choice`, int32 [batch], the number of the branch, and the branches' own parameters.

        Those are called `STAGE:BRANCH/PARAMETER` and are drawn for all images, from a key for each branch.
        """
        drawn = {"choice": chosen(randomness.uniform(keys, 0), self.shares)}
        for at, branch in enumerate(self.branches):
            if branch is not None and branch.random:
                own = branch.parameters(derived(keys, branch.name, at), spec)
                drawn.update({f"{prefix(branch, at)}{name}": value for name, value in own.items()})
        return drawn

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return routed(self.branches, images, parameters, lambda branch, part, own: branch.apply(part, own))

    def labels(self, labels: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if not self.relabels:
            return labels
        return routed(self.branches, labels, parameters, lambda branch, part, own: branch.labels(part, own))

    def config(self) -> dict[str, object]:
        """Returns the fields by name; a stage as its name and its own fields."""
        return {name: _as_json(value) for name, value in super().config().items()}


def _named(branch: Stage | None) -> str:
    return "leaving an image unchanged" if branch is None else branch.name


def _as_json(value: object) -> object:
    if isinstance(value, Stage):
        return {"name": value.name, **value.config()}
    return [_as_json(each) for each in value] if isinstance(value, (list, tuple)) else value
