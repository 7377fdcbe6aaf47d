"""Samples of the weights that Keras 2 and 3 train: after a batch of `fit`, or between two batches of a loop.

The optimizer of a loop runs inside a `tf.function`, which Python sees only while it is traced. The loop's variables are
noted then, and sampled when the loop requests a batch: all ranks are between the same two steps there.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.steps.weights import ELEMENTS, MOST_TENSORS, Sample, WeightChecks, chosen, positions

_MARK = "_tfhet_training"
"""Attribute of data sets for training that are iterated over."""


def install(checks: WeightChecks, keras: Any) -> None:
    """Samples the weights of models that a Keras package trains from now on."""
    loops: weakref.WeakKeyDictionary[Any, list[weakref.ref[Any]]] = weakref.WeakKeyDictionary()
    sampler = _Sampler()

    def after_batch(callbacks: Any) -> None:
        model = getattr(callbacks, "model", None)
        if model is not None:
            checks.count(model)
            checks.look(model, "keras", lambda: sampler.sample(model, model.trainable_variables))

    def noted(optimizer: Any, variables: Sequence[Any]) -> None:
        if len(loops.get(optimizer, ())) != len(variables):
            loops[optimizer] = [weakref.ref(one) for one in variables]

    def before_batch() -> None:
        for optimizer, references in [*loops.items()]:
            checks.look(optimizer, "loop", lambda: sampler.sample(optimizer, [one() for one in references]))  # noqa: B023
            checks.count(optimizer)

    _patch_callbacks(keras.callbacks.CallbackList, after_batch)
    for base in _bases(keras):
        _patch_optimizer(base, noted)
    _patch_iterators(before_batch)


def mark_training(dataset: Any) -> None:
    """Marks a data set for training, about to be iterated over."""
    setattr(dataset, _MARK, True)


def _bases(keras: Any) -> list[type]:
    """Returns the classes that define how optimizers of this Keras apply gradients."""
    legacy = getattr(getattr(keras.optimizers, "legacy", None), "Optimizer", None)
    tops = [keras.optimizers.Optimizer, *([legacy] if isinstance(legacy, type) else [])]
    found: dict[type, None] = {}
    for top in tops:
        owners = [each for each in top.__mro__ if "apply" in vars(each) or "apply_gradients" in vars(each)]
        if owners:
            found[owners[-1]] = None
    return [*found]


def _patch_callbacks(callback_list: Any, after_batch: Callable[[Any], None]) -> None:
    original = callback_list.on_train_batch_end

    @functools.wraps(original)
    def on_train_batch_end(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        after_batch(self)

    callback_list.on_train_batch_end = on_train_batch_end


def _patch_optimizer(base: Any, noted: Callable[[Any, Sequence[Any]], None]) -> None:
    if "apply" in vars(base):  # Keras 3
        apply = base.apply

        @functools.wraps(apply)
        def applying(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
            variables = None if trainable_variables is None else list(trainable_variables)
            noted(self, getattr(self, "_trainable_variables", ()) if variables is None else variables)
            return apply(self, grads, variables)

        base.apply = applying
        return
    apply_gradients = base.apply_gradients

    @functools.wraps(apply_gradients)
    def applying_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        noted(self, [variable for _, variable in pairs])
        return apply_gradients(self, pairs, *args, **kwargs)

    base.apply_gradients = applying_gradients


def _patch_iterators(before_batch: Callable[[], None]) -> None:
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator

    for name in ("__next__", "get_next"):
        original = getattr(OwnedIterator, name)

        def requesting(self: Any, original: Callable[[Any], Any] = original) -> Any:
            if hasattr(getattr(self, "_dataset", None), _MARK) and tf.executing_eagerly():
                before_batch()
            return original(self)

        setattr(OwnedIterator, name, functools.wraps(original)(requesting))


@dataclass(frozen=True)
class _Layout:
    """The weights of a model or optimizer. It is kept, because Keras 3 computes shape and dtype at each access."""

    variables: Sequence[weakref.ref[Any]]
    shapes: Sequence[tuple[int, ...]]
    """Shapes of the tensors that can be compared."""
    sampled: Sequence[int]
    """Indices of the variables in a sample."""

    @classmethod
    def of(cls, variables: Sequence[Any]) -> _Layout | None:
        """Returns the layout of variables; None if they cannot be compared."""
        own = [_variable(one) for one in variables]
        if any(one is None or not one.shape.is_fully_defined() for one in own):
            return None
        shapes = {index: tuple(one.shape) for index, one in enumerate(own) if one.dtype.is_floating}
        shapes = {index: shape for index, shape in shapes.items() if 0 not in shape}
        indices = [*shapes]
        sampled = [indices[number] for number in chosen([*shapes.values()])]
        return cls([weakref.ref(one) for one in variables], [*shapes.values()], sampled)

    def is_of(self, variables: Sequence[Any]) -> bool:
        return len(self.variables) == len(variables) and all(
            reference() is one for reference, one in zip(self.variables, variables, strict=True)
        )


class _Sampler:
    def __init__(self) -> None:
        self._layouts: weakref.WeakKeyDictionary[Any, _Layout] = weakref.WeakKeyDictionary()

    def sample(self, owner: Any, variables: Sequence[Any]) -> Sample | None:
        """Returns a sample of the weights of a model or optimizer; None if they cannot be compared."""
        layout = self._layouts.get(owner)
        if layout is None or not layout.is_of(variables):
            if (layout := _Layout.of(variables)) is None:
                return None
            self._layouts[owner] = layout
        parts = [_elements(_variable(variables[index])) for index in layout.sampled]
        return Sample(layout.shapes, tf.stack(parts).numpy() if parts else np.zeros([0, 0], np.float32))


def _variable(one: Any) -> Any:
    """Returns TensorFlow's variable of a variable of Keras or TensorFlow; None if it has none."""
    found = one if isinstance(one, tf.Variable) else getattr(one, "value", None)
    return found if isinstance(found, tf.Variable) else None


def _elements(variable: Any) -> tf.Tensor:
    """Returns the sampled elements, float32 [ELEMENTS]. An operation that reads only them: others copy the variable."""
    shape = tuple(variable.shape)
    if not shape:
        return tf.fill([ELEMENTS], tf.cast(variable, tf.float32))
    try:
        found = tf.raw_ops.ResourceGatherNd(resource=variable.handle, indices=_indices(shape), dtype=variable.dtype)
    except (AttributeError, ValueError):  # a variable of a distribution strategy, which has several handles
        found = tf.gather_nd(variable, _indices(shape))
    return tf.cast(found, tf.float32)


@functools.lru_cache(4 * MOST_TENSORS)
def _indices(shape: tuple[int, ...]) -> tf.Tensor:
    """Indices of the sampled elements, int64 [ELEMENTS, rank]."""
    return tf.constant(np.stack(np.unravel_index(positions(math.prod(shape)), shape), axis=-1))
