"""`tfhet.distribute(ds)`: the one line that a training script needs.

ds = tfhet.distribute(ds)      # a plain data set without a data group; this rank's share of it with one
model.fit(ds, epochs=3)
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfhet import strategies
from tfhet.cluster import environment
from tfhet.datasets import without_last_assertion
from tfhet.errors import UsageError
from tfhet.messages import inherited, rank
from tfhet.pipeline import Pipeline, element_spec, is_native, without_autotune
from tfhet.planes import private
from tfhet.planes.feed import Shard
from tfhet.planes.feed.loader import Loader, is_loaded
from tfhet.planes.feed.rank_side import Elements
from tfhet.planes.hooks import run_hooks
from tfhet.planes.registry import get
from tfhet.planes.validation import equal_passes, shares_of
from tfhet.steps import ScriptSteps, continue_in_keras
from tfhet.strategies import JobContext

log = logging.getLogger("tfhet")
_ordinals = itertools.count()


def distribute(
    data: tf.data.Dataset | Pipeline | Callable[..., tf.data.Dataset],
    *,
    arguments: Mapping[str, Any] | None = None,
    steps_per_epoch: int | None = None,
    training: bool = True,
    sharding: str = "auto",
    transport: Any = None,
    job: JobContext | None = None,
) -> tf.data.Dataset:
    """Returns this rank's share of `data`, from the job's data plane or prepared in this process. The launcher learns
    of the script's steps by it, and how long they wait (`tfhet.steps`).

    Without a data plane and with one rank, a plain data set keeps its elements as they are. Otherwise every rank gets
    the same number of batches in each pass, so that `model.fit` never leaves a rank alone in an allreduce:
    `steps_per_epoch`, or the data set's cardinality divided by the ranks. Batches that one pass leaves over come first
    in the next. An endless data set stays endless. One of unknown cardinality becomes endless with several ranks: give
    `steps_per_epoch`, here or to `model.fit`.

    `training=False` is for validation data: a pass delivers every example once, to one of the ranks, and every rank the
    same number of batches, in each pass. A rank with fewer examples gets smaller batches at the end.

    `data` may be a function at the top level of a module that returns a data set of batches, called as
    `data(shard, **arguments)` (`arguments`: JSON values). With `--data_plane feed` each process of the data hosts calls
    it for its part of the data (`shard.index` of `shard.count`), so it may run any Python. Elsewhere it is called here.

    All ranks must call this in the same order. `sharding`: "dynamic" (each file, or other source element, goes to one
    worker, once) or "auto", which is the same, or "off" (every worker delivers everything). `take`, `zip` and other
    operations that depend on the order of all elements keep their meaning if that order is known in advance.
    `transport`: settings of the data plane's wire; its own defaults otherwise. `job`: for tests; the environment
    otherwise.
    Raises UsageError for what the data plane cannot run or share (Python code in tf.data service, `take` of records),
    for less than one batch per rank, and for validation data that never end or would come more than once.
    """
    make, data = _made(data, arguments)
    if training:
        run_hooks(data)
    if steps_per_epoch is not None and steps_per_epoch < 1:
        raise UsageError(f"steps_per_epoch must be at least 1, not {steps_per_epoch}; omit it for a whole pass")
    if not (training or (steps_per_epoch is None and sharding == "auto")):
        raise UsageError("training=False delivers every example once: omit steps_per_epoch and sharding")
    job = job or JobContext.from_env(environment())
    strategy = strategies.chosen(job.strategy, job.size)
    strategy.prepare_rank()
    if (reader := strategy.reader(job.size)) is not None:
        return _for_reader(data, *reader, training, job)
    ordinal = next(_ordinals)  # counted in every shape, so that scripts may mix served and local data sets
    given = ", ".join(name for name, is_said in (("sharding", sharding != "auto"), ("transport", transport)) if is_said)
    steps, pipeline = ScriptSteps.of_process(job), data if isinstance(data, Pipeline) else None
    ids, is_native = steps is not None and steps.takes_ids(training), False
    if pipeline is not None and _is_loaded(pipeline, job):
        share, is_native = _loaded(pipeline, ids, steps_per_epoch, training, job), True
    elif pipeline is not None:
        share = _pipeline(pipeline, ids, steps_per_epoch, training, transport, job, ordinal)
    elif not isinstance(data, tf.data.Dataset):
        raise UsageError(f"tfhet.distribute takes a tf.data.Dataset or a tfhet.Pipeline, not {type(data).__name__}")
    elif make is not None and (called := _called(make, arguments or {}, data, job, training, given)) is not None:
        share = called if steps_per_epoch is None else _passes(called.repeat(), steps_per_epoch)
    elif training:
        share = _plain(data, steps_per_epoch, sharding, transport, job, ordinal)
    else:
        share = _validation(data, transport, job, ordinal)
    return strategy.undivided(share if steps is None else steps.watch(share, training, pipeline, is_native), job.size)


def _made(data: Any, arguments: Mapping[str, Any] | None) -> tuple[Callable[..., Any] | None, Any]:
    """The function that was given, if it was one, and the data set that it returns for all data."""
    if isinstance(data, (tf.data.Dataset, Pipeline)) or not callable(data):
        if arguments is not None:
            raise UsageError("arguments are for a function, which returns the data set")
        return None, data
    made = data(Shard(0, 1), **(arguments or {}))
    if not isinstance(made, tf.data.Dataset):
        raise UsageError(f"{data.__name__} returned {type(made).__name__}, and has to return a tf.data.Dataset")
    return data, made


def _for_reader(data: Any, number: Any, count: int, training: bool, job: JobContext) -> tf.data.Dataset:
    """The share of one of `count` processes that read what this one defines; without end, if for training."""
    if job.is_served or not isinstance(data, tf.data.Dataset):
        what = "reads from no data hosts: say --data_plane local" if job.is_served else "takes a tf.data.Dataset"
        raise UsageError(f"the strategy {job.strategy!r} {what}")
    share = private.auto_shard(data, count, number)
    return share.repeat() if training else share


def _called(
    make: Callable[..., Any],
    arguments: Mapping[str, Any],
    data: tf.data.Dataset,
    job: JobContext,
    training: bool,
    given: str,
) -> tf.data.Dataset | None:
    """The share by a plane whose hosts call functions, or None. given: the user's arguments without a meaning then."""
    share = get(job.plane).rank_side().called(make, arguments, data.element_spec, job, training)
    if share is not None:
        if given:
            raise UsageError(f"omit {given}: the data plane {job.plane} calls the function for each shard by itself")
        _say_reading(data)
    return share


def _plain(
    data: tf.data.Dataset, steps_per_epoch: int | None, sharding: str, transport: Any, job: JobContext, ordinal: int
) -> tf.data.Dataset:
    if job.size == 1 and not job.is_served and steps_per_epoch is None:
        _say_reading(data)
        return data
    cardinality = int(data.cardinality())
    data = without_last_assertion(data)
    steps = steps_per_epoch or _steps(cardinality, job.size)
    if steps is None and cardinality == tf.data.UNKNOWN_CARDINALITY and job.size > 1:
        log.warning(
            "the data set does not know its number of batches: it repeats without end. Say model.fit(..., "
            "steps_per_epoch=N), or tfhet.distribute(ds, steps_per_epoch=N) with N steps for each rank"
        )
    side = get(job.plane).rank_side()
    by_pass = side.repeats_by_pass and steps_per_epoch is None and steps is not None
    if (steps is not None or job.size > 1) and not by_pass and cardinality != tf.data.INFINITE_CARDINALITY:
        data = data.repeat()
    _say_reading(data)
    share = side.plain(data, job, ordinal, sharding=sharding, transport=transport)
    share = share.repeat() if by_pass else share
    return share if steps is None else _passes(share, steps)


def _validation(data: tf.data.Dataset, transport: Any, job: JobContext, ordinal: int) -> tf.data.Dataset:
    if data.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise UsageError("training=False, but the data set repeats without end: omit its repeat()")
    if job.size == 1 and not job.is_served:
        return data

    def read(own: tf.data.Dataset, name: str) -> tf.data.Dataset:
        return get(job.plane).rank_side().plain(own, job, ordinal, sharding="auto", transport=transport, own=name)

    share = equal_passes(data, job, ordinal, read)
    _say_reading(share)
    return share


def _say_reading(data: tf.data.Dataset) -> None:
    """Informs the launcher, which needs to know whether losing a host for good would keep the data from ever ending."""
    endless = bool(data.cardinality() == tf.data.INFINITE_CARDINALITY)
    inherited(environment()).send(rank.Reading(endless), limit_s=1.0)


def _pipeline(
    pipeline: Pipeline, ids: bool, steps: int | None, training: bool, transport: Any, job: JobContext, ordinal: int
) -> tf.data.Dataset:
    if not (training or pipeline.repeat == 1):
        raise UsageError(f"training=False, but the pipeline has repeat={pipeline.repeat}: a pass ends after one")
    side, count = get(job.plane).rank_side(), pipeline.source.example_count()
    if training and steps is None and count is not None and pipeline.repeat:
        steps = _steps(-(-count * pipeline.repeat // pipeline.batch_size), job.size)
    divided = None if training or (job.size == 1 and not job.is_served) else shares_of(pipeline, job.size)
    rest = None if divided is None else divided.rest(job.rank)
    data = side.declared(pipeline, job, ordinal, transport, None if training else 0, rest)
    _say_reading(data)
    parts = ("image", "label", "id", "epoch") if ids else ("image", "label")
    tuples = data.map(lambda element: tuple(element[part] for part in parts))
    if divided is not None:
        return divided.passes(tuples, pipeline.batch_size, job.rank)
    return tuples if steps is None else _passes(tuples, steps)


def _is_loaded(pipeline: Pipeline, job: JobContext) -> bool:
    """Whether ranks read a pipeline that runs natively: if tf.data cannot run it, or a feed serves it."""
    return is_native(pipeline) or (job.is_served and is_loaded(pipeline, job))


def _loaded(pipeline: Pipeline, ids: bool, steps: int | None, training: bool, job: JobContext) -> tf.data.Dataset:
    """This rank's share of a pipeline that runs natively; each pass is an epoch."""
    spec = tuple(each.tensor for each in element_spec(pipeline))
    if len(spec) < 2:
        raise UsageError(f"the source {pipeline.source.name} has no labels: read it by tfhet.batches")
    loader = Loader.of_pipeline(pipeline, training=training, job=job, is_noted=False, with_ids=ids)
    numbers = tf.TensorSpec([None], tf.int64)
    share = Elements(loader).dataset((*spec, numbers, numbers) if ids else spec)
    _say_reading(share)
    if steps is not None:
        return _passes(share.repeat(), steps)
    return share.apply(tf.data.experimental.assert_cardinality(len(loader)))


def _steps(batches: int, ranks: int) -> int | None:
    """Batches for each rank in one pass; None when the number of batches is unknown or endless."""
    if batches < 0:
        return None
    if batches < ranks:
        raise UsageError(
            f"{batches} batches cannot be shared among {ranks} ranks; give every rank at least one "
            "(smaller batches, or more data)"
        )
    return batches // ranks


def _passes(endless_data: tf.data.Dataset, steps: int) -> tf.data.Dataset:
    """A data set of `steps` elements that goes on, at each new pass, where the last one stopped."""
    iterator = iter(endless_data)
    data = tf.data.Dataset.range(steps).map(lambda _: next(iterator))
    data = without_autotune(data.prefetch(2).apply(tf.data.experimental.assert_cardinality(steps)))
    return continue_in_keras(data)
