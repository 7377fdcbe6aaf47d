"""Makes Keras read the passes of one continuing data set in their order, each once.

A data set of `tfhet.distribute` with `steps_per_epoch` goes on, in each pass, where the last one stopped. Keras 2 and 3
begin passes that such a data set must not lose: for another number of steps in `fit`, and under a `tf.distribute`
strategy for a first look at a batch.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

log = logging.getLogger("tfhet")
_CONTINUES, _WRAPPED = "_tfhet_continues", "_tfhet_wrapped"
_patching = threading.Lock()
_TRAINER = "keras.src.backend.tensorflow.trainer"
"""The module of Keras 3 that trains with TensorFlow; `import tensorflow` 2.16 and later loads it."""


def marked(dataset: Any, name: str) -> Any:
    """Returns the first value of an attribute in a data set and those from which it is made, or None."""
    found = getattr(dataset, name, None)
    return found or next((each for each in (marked(one, name) for one in dataset._inputs()) if each), None)


def continue_in_keras(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Makes Keras read the passes of a data set, or of what a script makes of it, in their order. Returns it."""
    setattr(dataset, _CONTINUES, True)
    with _patching:
        # Keras 2 and 3 pass each data set through the strategy, which is TensorFlow's default one without a scope.
        _wrap(tf.distribute.Strategy, "experimental_distribute_dataset", _with_steps_of_keras)
        if trainer := getattr(sys.modules.get(_TRAINER), "TensorFlowTrainer", None):
            _wrap(trainer, "_maybe_symbolic_build", _without_reading)
    return dataset


def _wrap(owner: type, name: str, wrapper: Callable[[Any], Any]) -> None:
    method = getattr(owner, name, None)
    if method is not None and not hasattr(method, _WRAPPED):
        wrapped = functools.wraps(method)(wrapper(method))
        setattr(wrapped, _WRAPPED, True)
        setattr(owner, name, wrapped)


def _with_steps_of_keras(distribute: Any) -> Any:
    """Wraps the method of strategies that distributes a data set: without an end, if `fit` asks for another number of
    steps than a pass has."""

    def distributing(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        owner = sys._getframe(1).f_locals.get("self")
        if type(owner).__module__.partition(".")[0] in ("keras", "tf_keras") and marked(dataset, _CONTINUES):
            dataset = _continued(dataset, owner)
        return distribute(self, dataset, *args, **kwargs)

    return distributing


def _continued(dataset: tf.data.Dataset, owner: Any) -> tf.data.Dataset:
    """owner: the object of Keras that makes iterators: a data handler in Keras 2, an epoch iterator in Keras 3."""
    given = getattr(getattr(owner, "_adapter", None), "_user_steps", None) or getattr(owner, "steps_per_epoch", None)
    if given in (None, int(dataset.cardinality())):
        return dataset
    dataset = dataset.repeat()
    if hasattr(owner, "_num_batches"):  # Keras 3 ends an epoch after so many batches, whatever `steps_per_epoch` is
        owner._num_batches, owner.data_adapter._dataset = None, dataset
    return dataset


def _without_reading(build: Any) -> Any:
    """Wraps the method of Keras 3 that builds a model, under a strategy, from a batch: the types of a data set suffice,
    and no pass begins."""

    def building(self: Any, iterator: Any = None, data_batch: Any = None) -> Any:
        dataset = None if iterator is None else iterator.data_adapter.get_tf_dataset()
        dataset = getattr(dataset, "_original_dataset", dataset)  # of a DistributedDataset
        if self._distribute_strategy is None or dataset is None or not marked(dataset, _CONTINUES):
            return build(self, iterator, data_batch)
        types = _types(dataset.element_spec)
        if types is None:
            log.warning(
                "Keras reads a batch to build the model, and trains without it and those prefetched with it. Build the "
                "model before fit, or state the shapes of the elements (tf.ensure_shape)"
            )
            return build(self, iterator, data_batch)
        return build(self, None, types)

    return building


def _types(spec: Any) -> Any:
    """Returns types of batches of any number of examples, or None if another dimension is unknown."""
    shapes = [getattr(part, "shape", tf.TensorShape(None)) for part in tf.nest.flatten(spec)]
    if any(shape.rank is None or not shape[1:].is_fully_defined() for shape in shapes):
        return None
    # A replica gets a part of a batch.
    return tf.nest.map_structure(
        lambda part: tf.TensorSpec([None, *part.shape[1:]][: part.shape.rank], part.dtype), spec
    )
