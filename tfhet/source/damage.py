"""Records that cannot be read, parsed or decoded: which they are, where they lie, and what is wrong with them."""

from __future__ import annotations

import collections
import functools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import DataError, UsageError
from tfhet.source import framing
from tfhet.source.bad_record import BadRecord
from tfhet.source.examples import held
from tfhet.source.source import Source, example_id, position_of, split_of

Prepare = Callable[[tf.Tensor, tf.Tensor], Any]
"""What is to be done with examples: (ids int64 [n], records [n] as the source reads them) -> a nest of tensors."""

SOUND = "nothing is wrong with it now, though it did not come when it should have"
ERRORS = (tf.errors.OpError, UnicodeDecodeError)
"""What a record raises that does not fit; the second where TensorFlow's message quotes bytes that are no text."""
_BATCH = 64


def diagnose(
    source: Source, ids: Sequence[int] | np.ndarray, limit: int = 100, prepare: Prepare | None = None
) -> list[BadRecord]:
    """What is wrong with each of the first `limit` of these ids, in their order: they are read one by one.

    `prepare` is run too, when they parse. An id with nothing wrong about it is listed, and its reason says so. What
    `check` passed over is not in it: see `Source.damages`. Raises UsageError for an id of a split that there is not.
    """
    return list(examine(source, np.asarray(ids, np.int64).reshape(-1)[:limit], prepare))


def find(
    source: Source, prepare: Prepare | None = None, deadline_s: float = 60.0, clock: Clock = SYSTEM
) -> BadRecord | None:
    """The first bad record of all, in the order of splits; None when there is none, or was none in `deadline_s`.

    Reads everything, and runs `source.parse` and `prepare` (in a graph, in batches) on all of it: for naming the record
    at which a training failed.
    """

    @functools.partial(tf.function, reduce_retracing=True, autograph=False)
    def work(ids: tf.Tensor, records: tf.Tensor) -> tf.Tensor:
        made = [source.parse(records), prepare(ids, records) if prepare else ()]
        # What nobody uses would not be run.
        with tf.control_dependencies(tf.nest.flatten(made, expand_composites=True)):
            return tf.size(ids)

    threads = os.cpu_count() or 1
    end_s = clock.monotonic() + deadline_s
    running: collections.deque[tuple[np.ndarray, Future | None]] = collections.deque()

    def first_of_oldest() -> BadRecord | None:
        ids, result = running.popleft()
        try:
            if result is not None:
                result.result()
                return None
        except ERRORS:
            pass
        return next((bad for bad in examine(source, ids, prepare) if bad.reason not in (SOUND, framing.ENDS)), None)

    with ThreadPoolExecutor(threads) as pool:
        try:
            for ids, records in _batches(source):
                running.append((ids, None if records is None else pool.submit(work, tf.constant(ids), records)))
                while len(running) > 2 * threads:
                    if bad := first_of_oldest():
                        return bad
                if clock.monotonic() > end_s:
                    return None
            while running:
                if bad := first_of_oldest():
                    return bad
        finally:
            for _, result in running:
                if result is not None:
                    result.cancel()
    return None


def _batches(source: Source) -> Iterator[tuple[np.ndarray, tf.Tensor | None]]:
    """All records with their ids; None for records that could not be read, or some of them."""
    for split in range(source.split_count()):
        read = 0
        batches = iter(source.read(tf.constant(split, tf.int64)).batch(_BATCH))
        while True:
            try:
                positions, records = next(batches)
            except StopIteration:
                # TensorFlow takes a file that ends inside a record's header for one that ends before it.
                behind = np.array([example_id(split, read)], np.int64)
                if source.places(behind)[0][0]:
                    yield behind, None
                break
            except tf.errors.OpError:
                # The batch that it was in is gone, and so is all behind it in this split.
                yield np.arange(read, read + _BATCH, dtype=np.int64) + example_id(split, 0), None
                break
            yield positions.numpy() + example_id(split, 0), records
            read += len(positions)


def examine(source: Source, ids: np.ndarray, prepare: Prepare | None = None) -> Iterator[BadRecord]:
    """As `diagnose`, of all the ids, one when it is asked for."""
    records = iter(source.read_at(ids))
    for number, (file, offset) in zip(ids.tolist(), source.places(ids), strict=True):
        try:
            reason = _content_fault(source, number, next(records)[2], prepare) or SOUND
        except tf.errors.OpError as error:
            reason = (file and _framing_fault(file, offset)) or f"cannot be read: {said(error)}"
        yield BadRecord(file, offset, split_of(number), position_of(number), reason)


def _framing_fault(file: str, offset: int) -> str | None:
    try:
        return framing.fault(file, offset)
    except (UsageError, DataError) as error:
        return str(error)


def _content_fault(source: Source, number: int, record: tf.Tensor, prepare: Prepare | None) -> str | None:
    records, holds = record[tf.newaxis], ""
    if record.dtype == tf.string:
        features = held(record.numpy())
        if features is None:
            return "no tf.train.Example"
        holds = f"; it holds {features}"
    try:
        source.parse(records)
    except ERRORS as error:
        return f"{said(error)}{holds}"
    try:
        if prepare:
            prepare(tf.constant([number], tf.int64), records)
    except ERRORS as error:
        return f"the stages fail: {said(error)}"
    return None


def said(error: Exception) -> str:
    """What an operation had to say, without where in the graph it stands."""
    lines = [line.strip() for line in str(getattr(error, "message", error)).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # AutoGraph puts a traceback in front, tf.data the node behind.
    text = lines[-1] if len(lines) > 1 and "user code:" in lines[0] else lines[0]
    text = re.sub(r"^\w+Error: |\{\{function_node .*?\}\}|\[\[.*|\[Op:.*", "", text)
    return text.replace(" of example 0 of the block", "").replace("contents[0]", "it").strip()
