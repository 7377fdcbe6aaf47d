"""The reduction of a step's gradients over the ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.horovod.keras_version import native

Groups = int | tuple[frozenset[Hashable], ...]


def groups_of(groups: int | Iterable[Iterable[Any]] | None) -> Groups:
    """Returns Horovod's argument `groups` in a form that can be compared: numbers, or references of variables."""
    if groups is None or isinstance(groups, int):
        return groups or 0
    return tuple(frozenset(native(variable).ref() for variable in group) for group in groups)


@dataclass(frozen=True)
class Reduction:
    """How gradients are reduced, see `DistributedOptimizer`. Raises UsageError if Horovod cannot reduce so."""

    op: Any
    compression: Any
    sparse_as_dense: bool
    gradient_predivide_factor: float
    groups: Groups
    """Number of groups, or the variables of each group; 0: each gradient is reduced alone."""
    process_set: Any
    device_dense: str
    device_sparse: str

    def __post_init__(self) -> None:
        if self.gradient_predivide_factor != 1 and self.op != hvd.Average:
            raise UsageError(
                "gradient_predivide_factor splits the average's division: pass it with op=hvd.Average only"
            )
        if isinstance(self.groups, int) and self.groups < 0:
            raise UsageError(f"groups must be a number of groups or lists of variables, not {self.groups}")
        if self.process_set.process_set_id is None:
            raise UsageError(
                f"Horovod does not know {self.process_set}: pass it to hvd.init or hvd.add_process_set first"
            )

    @property
    def is_needed(self) -> bool:
        """Whether this rank has others to reduce with. Raises ValueError before `hvd.init()`."""
        return bool(self.process_set.included()) and self.process_set.size() > 1

    def reduce(self, gradients: Iterable[Any], variables: Iterable[Any], name: str | None = None) -> list[Any]:
        """Returns the gradients, reduced over the ranks of the process set.

        Args:
            gradients: A tensor, `tf.IndexedSlices` or None for each variable.
            variables: Variables of Keras or TensorFlow.
            name: Prefix of the operations' names, the same on every rank. By default, they are named by the tensors.
        """
        found = list(gradients)
        if not self.is_needed:
            return found
        if self.sparse_as_dense:
            found = [tf.convert_to_tensor(each) if isinstance(each, tf.IndexedSlices) else each for each in found]
        groups = tuple(map(tuple, self._split(found, list(variables))))
        if tf.executing_eagerly():
            return _graph(self, groups, name)(found)  # which reduces all gradients at the same time
        return self.reduce_groups(found, groups, name)

    def reduce_groups(self, gradients: Sequence[Any], groups: Iterable[Sequence[int]], name: str | None) -> list[Any]:
        reduced = list(gradients)
        for first, *others in groups:
            options = {
                "op": self.op,
                "compression": self.compression,
                "process_set": self.process_set,
                "device_dense": self.device_dense,
                "device_sparse": self.device_sparse,
                "prescale_factor": 1 / self.gradient_predivide_factor,
                "postscale_factor": self.gradient_predivide_factor,
                "name": name and f"{name}.{first}",
                "ignore_name_scope": name is not None,
            }
            if not others:
                reduced[first] = hvd.allreduce(gradients[first], **options)
                continue
            group = [first, *others]
            for index, tensor in zip(
                group, hvd.grouped_allreduce([gradients[i] for i in group], **options), strict=True
            ):
                reduced[index] = tensor
        return reduced

    def _split(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[list[int]]:
        """Returns the indices of each group's gradients. Sparse ones are alone: Horovod confuses shapes in groups."""
        alone = [[index] for index, each in enumerate(gradients) if isinstance(each, tf.IndexedSlices)]
        dense = [i for i, each in enumerate(gradients) if each is not None and not isinstance(each, tf.IndexedSlices)]
        if isinstance(self.groups, int):
            count = self.groups or max(len(dense), 1)
            return alone + [part.tolist() for part in np.array_split(dense, count) if part.size]
        numbers = {reference: number for number, group in enumerate(self.groups) for reference in group}
        groups: dict[Any, list[int]] = {}
        for index in dense:
            groups.setdefault(numbers.get(native(variables[index]).ref(), (index,)), []).append(index)
        return alone + list(groups.values())


@functools.lru_cache(maxsize=64)
def _graph(
    reduction: Reduction, groups: tuple[tuple[int, ...], ...], name: str | None
) -> Callable[[list[Any]], list[Any]]:
    return tf.function(lambda gradients: reduction.reduce_groups(gradients, groups, name), autograph=False)
