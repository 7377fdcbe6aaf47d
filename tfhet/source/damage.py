"""Finds records that cannot be read, parsed or decoded, and says where they lie and what is wrong with them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import DataError, UsageError
from tfhet.source import framing
from tfhet.source.examples import held
from tfhet.source.source import BadRecord, Source, example_id, position_of, split_of

Prepare = Callable[[tf.Tensor, tf.Tensor], Any]
"""Prepares examples in a pipeline: (ids int64 [n], records [n] as the source reads them) -> nested tensors."""

SOUND = "readable now, but it was missing when the epoch was read"
"""Reason of a record with which nothing is wrong."""
RECORD_ERRORS = (tf.errors.OpError, UnicodeDecodeError)
"""Exceptions that a bad record raises; UnicodeDecodeError when TensorFlow's message quotes bytes that are not text."""
_BATCH = 64


def diagnose(
    source: Source, ids: Sequence[int] | np.ndarray, limit: int = 100, prepare: Prepare | None = None
) -> list[BadRecord]:
    """Reads the first `limit` of these ids one by one and returns for each, in order, what is wrong with it, or the
    reason SOUND. `prepare` is run on the records that can be parsed. Records that `check` skipped are not in the list:
    see `Source.damages`. Raises UsageError for an id whose split does not exist."""
    return list(examine(source, np.asarray(ids, np.int64).reshape(-1)[:limit], prepare))


def find(
    source: Source, prepare: Prepare | None = None, deadline_s: float = 60.0, clock: Clock = SYSTEM
) -> BadRecord | None:
    """Returns the first bad record in the order of splits, or None when none was found within `deadline_s` seconds.
    Reads the whole source and runs `source.parse` and `prepare` on it, in a graph and in batches."""

    @functools.partial(tf.function, reduce_retracing=True, autograph=False)
    def work(ids: tf.Tensor, records: tf.Tensor) -> tf.Tensor:
        made = [source.parse(records), prepare(ids, records) if prepare else ()]
        # TensorFlow does not run operations whose results are unused.
        with tf.control_dependencies(tf.nest.flatten(made, expand_composites=True)):
            return tf.size(ids)

    def first_bad(ids: np.ndarray, records: tf.Tensor | None) -> BadRecord | None:
        if records is not None:
            with contextlib.suppress(*RECORD_ERRORS):
                work(tf.constant(ids), records)
                return None
        return next((bad for bad in examine(source, ids, prepare) if bad.reason not in (SOUND, framing.ENDS)), None)

    threads = os.cpu_count() or 1
    end_s, batches = clock.monotonic() + deadline_s, _batches(source)
    with ThreadPoolExecutor(threads) as pool:
        while clock.monotonic() < end_s and (group := list(itertools.islice(batches, 2 * threads))):
            if bad := next(filter(None, pool.map(first_bad, *zip(*group, strict=True))), None):
                return bad
    return None


def _batches(source: Source) -> Iterator[tuple[np.ndarray, tf.Tensor | None]]:
    """Yields (ids int64 [n], records [n]) of all splits; None instead of a batch that contains an unreadable record."""
    for split in range(source.split_count()):
        read = 0
        batches = iter(source.read(tf.constant(split, tf.int64)).batch(_BATCH))
        while True:
            try:
                positions, records = next(batches)
            except StopIteration:
                # TensorFlow takes a file that ends inside a record's header for one that ends before it.
                following = np.array([example_id(split, read)], np.int64)
                if source.places(following)[0][0]:
                    yield following, None
                break
            except tf.errors.OpError:
                # The batch with the bad record is lost, and so is the rest of this split.
                yield np.arange(read, read + _BATCH, dtype=np.int64) + example_id(split, 0), None
                break
            yield positions.numpy() + example_id(split, 0), records
            read += len(positions)


def examine(source: Source, ids: np.ndarray, prepare: Prepare | None = None) -> Iterator[BadRecord]:
    """Yields what `diagnose` lists, for all ids; each record is read when its turn comes."""
    records = iter(source.read_at(ids))
    for number, (file, offset) in zip(ids.tolist(), source.places(ids), strict=True):
        try:
            reason = _content_fault(source, number, next(records)[2], prepare) or SOUND
        except tf.errors.OpError as error:
            try:
                reason = (file and framing.fault(file, offset)) or f"cannot be read: {error_text(error)}"
            except (UsageError, DataError) as unreadable:
                reason = str(unreadable)
        yield BadRecord(file, offset, split_of(number), position_of(number), reason)


def _content_fault(source: Source, number: int, record: tf.Tensor, prepare: Prepare | None) -> str | None:
    records, holds = record[tf.newaxis], ""
    if record.dtype == tf.string:
        features = held(record.numpy())
        if features is None:
            return "not a tf.train.Example"
        holds = f"; it holds {features}"
    try:
        source.parse(records)
    except RECORD_ERRORS as error:
        return f"{error_text(error)}{holds}"
    try:
        if prepare:
            prepare(tf.constant([number], tf.int64), records)
    except RECORD_ERRORS as error:
        return f"the stages fail: {error_text(error)}"
    return None


def error_text(error: Exception) -> str:
    """Returns the message of an operation's error without its place in the graph."""
    lines = [line.strip() for line in str(getattr(error, "message", error)).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # AutoGraph puts a traceback before the message, tf.data the name of the node after it.
    text = lines[-1] if len(lines) > 1 and "user code:" in lines[0] else lines[0]
    text = re.sub(r"^\w+Error: |\{\{function_node .*?\}\}|\[\[.*|\[Op:.*", "", text)
    return text.replace(" of example 0 of the block", "").replace("contents[0]", "it").strip()
