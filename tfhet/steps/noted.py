"""Data sets that note when each of their elements was asked for and delivered.

`tfhet.distribute` returns one. The consumer's waits show only at the end of what a script makes of it (`map`,
`prefetch`, `cache`): so an iterator over any data set made of a noted one notes its own deliveries, too. Several such
data sets, called ends here, may be read one after the other: `ds.take(3)` to look at batches, then `ds` in `fit`.

Keras' `fit` requests elements inside a graph, where no Python runs: a compiled op notes there. Without it (no compiler)
plain operations do, at the consumer's end only, which takes longer (`python -m benchmarks.steps`).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.clock import SYSTEM
from tfhet.steps.continued import marked
from tfhet.steps.note import Note
from tfhet.steps.training_pass import TrainingPasses

_ASYNCHRONOUS = (
    "_PrefetchDataset",
    "_ParallelMapDataset",
    "_ParallelBatchDataset",
    "_ParallelInterleaveDataset",
    "_MapAndBatchDataset",
)
"""If the last transformation is none of these, tf.data prefetches after it (`inject_prefetch`, TensorFlow 2.15)."""
_MARK = "_tfhet_noted"
_END, _PENDING = -1, -2
"""Numbers of examples in the compiled op's rows for the end of a pass and for a request that is pending."""


class NotedDataset:
    """One data set of a script, with the notes of its deliveries."""

    def __init__(
        self, dataset: tf.data.Dataset, ops: Any | None, has_ids: bool = False, passes: TrainingPasses | None = None
    ):
        """ops: `deliveries`, or None. has_ids: elements end with ids and epochs, int64 [batch], that ops take off.
        passes: those of the script, if it trains with the data set."""
        self._passes = passes
        self._has_ids, self._ops, options = has_ids, ops, dataset.options()
        self._injects = False not in (options.experimental_optimization.inject_prefetch, options.autotune.enabled)
        self.lengths: dict[str, int] = {}
        """Number of elements of each end, negative if unknown or endless."""
        self.pending_s: dict[str, float] = {}
        """The time of the request that each end has not answered, as of the last `take`."""
        self._plain: list[_PlainNotes] = []
        self._number = next(_numbers)
        self._ends: dict[str, int] = {}
        self._inner: list[Note] = []
        self.dataset = (
            self._compiled(dataset, self._number, has_ids) if ops else dataset.with_options(tf.data.Options())
        )
        """The same elements, without their ids; deliveries are noted. Another object, which can carry a mark."""
        setattr(self.dataset, _MARK, self)
        _note_iterators()

    def at_the_end(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """`dataset`, which is made of this one and about to be iterated over, with notes of its own deliveries."""
        noted = self._at_the_end(dataset)
        if self._passes is not None:
            self._passes.begin(noted)
        return noted

    def _at_the_end(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        end = "" if dataset is self.dataset else self._name(dataset)
        self.lengths[end] = int(dataset.cardinality())
        if self._ops is None:
            self._plain.append(_PlainNotes(end))
            return _without_injection(self._plain[-1].of(self._prefetched(dataset)))
        return self._compiled(dataset, self._ends.setdefault(end, next(_numbers))) if end else dataset

    def _name(self, dataset: tf.data.Dataset) -> str:
        """Names the data set by its shape, which a loop that makes it again in each epoch does not change."""
        kinds, each = list[str](), dataset
        while getattr(each, _MARK, None) is not self and (inputs := each._inputs()):
            kinds.append(type(each).__name__)
            each = next((one for one in inputs if _noted_in(one) is self), inputs[0])
        return f"{' of '.join(kinds)}, {int(dataset.cardinality())} of {dataset.element_spec}"

    def _prefetched(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """With the prefetch that tf.data would put at its end, where it would: after the notes it would hide waits."""
        last = dataset
        while type(last).__name__ == "_OptionsDataset":
            (last,) = last._inputs()
        is_injected = self._injects and type(last).__name__ not in _ASYNCHRONOUS
        return dataset.prefetch(tf.data.AUTOTUNE) if is_injected else dataset

    def _compiled(self, dataset: tf.data.Dataset, number: int, has_ids: bool = False) -> tf.data.Dataset:
        # The public API makes no data set of an op; these names are the same in TensorFlow 2.15.1 and 2.21.
        from tensorflow.python.data.ops.dataset_ops import UnaryDataset

        class Noted(UnaryDataset):
            element_spec = dataset.element_spec[:-2] if has_ids else dataset.element_spec

        dataset = self._prefetched(dataset)
        assert self._ops is not None
        structure = {name: each[: len(each) - 2 * has_ids] for name, each in dataset._flat_structure.items()}
        variant = self._ops.tfhet_noted_dataset(dataset._variant_tensor, number=number, ids=has_ids, **structure)
        return _without_injection(Noted(dataset, variant))

    def take_ids(self) -> np.ndarray:
        """Takes the ids of the examples that were delivered since the last call, and their epochs: int64 [2, n]."""
        if self._ops is None or not self._has_ids:
            return np.zeros([2, 0], np.int64)
        return self._ops.tfhet_take_ids(number=self._number).numpy()

    def take(self) -> list[Note]:
        """Takes the consumer's notes since the last call, in the order of time."""
        self.pending_s = {}
        if self._ops is None:
            over, self._plain = self._plain[:-1], self._plain[-1:]
            found = list(itertools.chain(*(each.take(each in over) for each in (*over, *self._plain))))
            self.pending_s = {each.end: each.pending_s for each in self._plain if each.pending_s is not None}
        else:
            found = []
            for end, number in {"": self._number, **self._ends}.items():
                for asked_s, got_s, examples, index, is_inner in self._rows(number):
                    is_inner = is_inner and not end
                    if examples != _PENDING:
                        note = Note(asked_s, got_s, None if examples == _END else int(examples), int(index), end)
                        (self._inner if is_inner else found).append(note)
                    elif not is_inner:
                        self.pending_s[end] = min(asked_s, self.pending_s.get(end, asked_s))
        return sorted(found, key=lambda note: note.asked_s)

    def take_deliveries(self) -> list[Note]:
        """Takes the notes of what `distribute` delivered, if a script derived another data set and ops are compiled."""
        inner, self._inner = self._inner, []
        return inner

    def _rows(self, number: int) -> list[list[float]]:
        return self._ops.tfhet_take_notes(number=number).numpy().tolist()  # type: ignore[union-attr]


_numbers = itertools.count()


def _without_injection(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return dataset.with_options(options)


class _PlainNotes:
    """Notes by plain operations, of one iterator: two rows in a queue for each element."""

    def __init__(self, end: str) -> None:
        self.end = end
        self._queue = tf.queue.FIFOQueue(-1, [tf.float64], [[3]])
        self._ahead_s = SYSTEM.wall() - SYSTEM.monotonic()
        self._asked: tuple[float, int] | None = None

    def of(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        def row(index: tf.Tensor, examples: Any) -> tf.Operation:
            values = [tf.cast(value, tf.float64) for value in (index, tf.timestamp(), examples)]
            return self._queue.enqueue([tf.stack(values)])

        def asked(index: tf.Tensor) -> tf.Tensor:
            with tf.control_dependencies([row(index, -1)]):
                return tf.identity(index)

        def delivered(index: tf.Tensor, element: Any) -> Any:
            first = tf.nest.flatten(element, expand_composites=True)[0]
            with tf.control_dependencies([row(index, tf.shape(first)[0] if first.shape.rank else 1)]):
                return tf.nest.map_structure(tf.identity, element)

        counted = tf.data.Dataset.range(2**62).map(asked)  # zip asks its inputs in their order
        return tf.data.Dataset.zip((counted, dataset)).map(delivered)

    def take(self, is_over: bool) -> Iterator[Note]:
        """Takes the notes since the last call. is_over: whether another iterator has taken the place of this one."""
        waiting = int(self._queue.size())
        for index, at_s, examples in self._queue.dequeue_many(waiting).numpy().tolist() if waiting else ():
            now_s = at_s - self._ahead_s
            if examples < 0:
                self._asked = now_s, int(index)
            elif self._asked is not None:
                yield Note(self._asked[0], now_s, int(examples), int(index), self.end)
                self._asked = None
        if is_over and self._asked is not None:
            yield Note(self._asked[0], self._asked[0], None, self._asked[1], self.end)

    @property
    def pending_s(self) -> float | None:
        """The time of the request for the first element; of a later one, it may be the end of the pass."""
        return self._asked[0] if self._asked is not None and self._asked[1] == 0 else None


_patching = threading.Lock()


def _note_iterators() -> None:
    """From now on, iterators over what is made of a noted data set note their deliveries, Keras' own among them."""
    with _patching:
        iterate = tf.data.Dataset.__iter__
        if hasattr(iterate, _MARK):
            return

        def noting(dataset: tf.data.Dataset) -> Any:
            if not tf.executing_eagerly():
                return iterate(dataset)
            found = _noted_in(dataset)
            return iterate(found.at_the_end(dataset) if found else dataset)

        setattr(noting, _MARK, True)
        tf.data.Dataset.__iter__ = noting


def _noted_in(dataset: tf.data.Dataset) -> NotedDataset | None:
    """The noted data set from which `dataset` is made: the first one if there are several."""
    found: NotedDataset | None = marked(dataset, _MARK)
    return found
