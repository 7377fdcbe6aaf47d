"""The flow of examples: settings of a pipeline that may also be written as stages, and their form in tf.data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import Cache, Stage, Stream

FIELDS = ("interleave", "cache", "shuffle", "repeat", "batch_size", "prefetch")
"""Fields of a pipeline that a stage may set, in the order in which such stages are written. The last of them stands
after the stages of images, the others before."""

ENDLESS = range(1 << 31)
"""Passes without end: a range whose end is never reached, and that tf.data service can split."""

_LAST = "prefetch"
_WHY_FIRST = {
    "cache": "it keeps records as the source reads them, before any stage",
    "interleave": "it says how records are read",
    "shuffle": "it sets the order in which records are read; stages give the same image in any order",
    "repeat": "a pass begins with reading, and stages draw new random numbers in each pass",
    "batch_size": "stages work on batches",
}


def taken(stages: Sequence[Stage], given: Mapping[str, int | str]) -> tuple[tuple[Stage, ...], dict[str, int | str]]:
    """Returns the stages of images, and the fields that the other stages set. given: the values of those in FIELDS that
    are not at their defaults. Raises UsageError for a setting that is repeated, misplaced, or contradicts its field."""
    images: list[Stage] = []
    setters: dict[str, Stream] = {}
    for stage in stages:
        if not isinstance(stage, Stream):
            if _LAST in setters:
                stage.refuse(f"comes after {setters[_LAST].name}, which holds finished batches: put that last")
            images.append(stage)
            continue
        field = stage.setting
        if field not in FIELDS:
            stage.refuse(f"sets {field!r}, which pipelines do not have; they have {', '.join(FIELDS)}")
        if field in setters:
            stage.refuse("is given twice: give it once")
        if images and field != _LAST:
            why = _WHY_FIRST[field]
            stage.refuse(f"comes after {images[-1].name}: put it before the stages of images, because {why}")
        later = [setter.name for other, setter in setters.items() if FIELDS.index(other) > FIELDS.index(field)]
        setters[field] = stage
        if later:
            wanted = "; ".join(setters[other].name for other in FIELDS if other in setters)
            stage.refuse(f"comes after {later[0]}; the order is {wanted}")
        if given.get(field, stage.value) != stage.value:
            stage.refuse(f"is {stage.value!r}, but the pipeline's {field} is {given[field]!r}: give one of them")
    return tuple(images), {field: setter.value for field, setter in setters.items()}


def check(settings: Mapping[str, int | str]) -> None:
    """Raises UsageError for fields of a pipeline (those in FIELDS) that are out of range."""
    for field, least in (("interleave", 1), ("shuffle", 0), ("repeat", 0), ("batch_size", 1), ("prefetch", 1)):
        value = settings[field]
        if type(value) is not int or value < least:
            raise UsageError(f"{field} must be at least {least}, not {value!r}")
    if settings["cache"]:
        Cache(str(settings["cache"]))


def passes(repeat: int, epoch: int | None) -> range:
    """Returns the passes over the data in `epoch`, numbered as the `epoch` of their examples; ENDLESS for `epoch` None
    and `repeat` 0. Raises UsageError for an epoch after one without end."""
    if epoch and not repeat:
        raise UsageError(f"epoch {epoch} cannot follow one that repeats without end: give repeat(epochs)")
    if epoch is None or not repeat:
        return ENDLESS
    return range(epoch * repeat, (epoch + 1) * repeat)


def side_by_side(splits: tf.data.Dataset, read: Callable[..., tf.data.Dataset], interleave: int) -> tf.data.Dataset:
    """Returns the records of a stream of splits, `interleave` of them at a time, one example of each in turn. The order
    is fixed: the next split of the stream takes the place of one that has ended, a turn later. Under DYNAMIC sharding
    each worker holds `interleave` splits, and each split still goes to one worker, once. In a stream without end the
    last splits of a pass are read together with the first of the next, and every pass has each example once."""
    parallel = {} if interleave == 1 else {"num_parallel_calls": interleave, "deterministic": True}
    return splits.interleave(read, cycle_length=interleave, block_length=1, **parallel)


def cached(records: tf.data.Dataset, directory: str, fingerprint: str, split: tf.Tensor) -> tf.data.Dataset:
    """Returns the records of one split: written to `directory` at the first reading, read from there when complete.

    fingerprint: of the source, whose cache is separate from other sources' caches. split: int64 []. tf.data's snapshot
    keeps unfinished files apart from complete ones: an interrupted reader leaves a part that is never read, and two
    readers may write the same split at the same time (tf.data's `cache` would end both with an error). No lock is
    needed, so hosts may share the directory.
    """
    place = tf.strings.join([f"{directory.rstrip('/')}/{fingerprint[:16]}/split-", tf.strings.as_string(split)])
    return records.snapshot(
        place,
        compression=None,
        # One file, in the order of the source.
        shard_func=lambda *_: tf.constant(0, tf.int64),
        reader_func=lambda files: files.flat_map(lambda file: file),
    )
