"""How examples flow: settings of a pipeline that may also be written as stages, and what they come to in tf.data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import Stage, Stream

DEFAULTS: Mapping[str, int | str] = {
    "interleave": 1,
    "cache": "",
    "shuffle": 0,
    "repeat": 1,
    "batch_size": 32,
    "prefetch": 2,
}
"""The fields of a pipeline that a stage may set, with their defaults; in the order in which the stages are written. All
but the last stand before the stages of images."""

ENDLESS = 0
"""The value of `repeat` for a data set without end."""

_LAST = "prefetch"
_WHY_FIRST = {
    "cache": "it keeps records as the source gives them, not what stages have made of them",
    "interleave": "it says how records are read",
    "shuffle": "the order is that in which records are read; a stage gives the same image in any order",
    "repeat": "a pass begins with reading, and stages draw anew in each",
    "batch_size": "stages work on batches",
}


def taken(stages: Sequence[Stage], given: Mapping[str, int | str]) -> tuple[tuple[Stage, ...], dict[str, int | str]]:
    """The stages of images, and the fields that the others set. `given`: the fields in DEFAULTS as they were given.

    Raises UsageError for a stage that comes twice, at a place where it says what is not so, or contradicts its field.
    """
    images: list[Stage] = []
    settings: dict[str, int | str] = {}
    names: dict[str, str] = {}
    order = list(DEFAULTS)
    for stage in stages:
        if not isinstance(stage, Stream):
            if _LAST in settings:
                stage.refuse(f"stands behind {names[_LAST]}, which holds finished batches: put that last")
            images.append(stage)
            continue
        field, value = stage.setting, stage.value
        if field not in DEFAULTS:
            stage.refuse(f"sets {field!r}, which pipelines do not have; they have {', '.join(DEFAULTS)}")
        if field in settings:
            stage.refuse("comes twice: say it once")
        if images and field != _LAST:
            stage.refuse(f"stands behind {images[-1].name}: put it before the stages of images, because {_why(field)}")
        behind = [names[other] for other in settings if order.index(other) > order.index(field)]
        if behind:
            wanted = [*(names[f] for f in order if f in settings and f in order[: order.index(field)]), stage.name]
            stage.refuse(f"stands behind {behind[0]}; the order is {'; '.join([*wanted, *behind])}")
        if given.get(field, DEFAULTS[field]) not in (DEFAULTS[field], value):
            stage.refuse(f"says {value!r}, and the pipeline's {field} is {given[field]!r}: give one of them")
        settings[field], names[field] = value, stage.name
    return tuple(images), settings


def _why(field: str) -> str:
    return _WHY_FIRST[field]


def check(settings: Mapping[str, int | str]) -> None:
    """Raises UsageError for fields of a pipeline (those in DEFAULTS) that are out of range."""
    for field, least in (("interleave", 1), ("shuffle", 0), ("repeat", 0), ("batch_size", 1), ("prefetch", 1)):
        value = settings[field]
        if type(value) is not int or value < least:
            raise UsageError(f"{field} must be at least {least}, not {value!r}")
    directory = str(settings["cache"])
    if directory and not directory.startswith("/") and "://" not in directory:
        raise UsageError(f"cache is an absolute path, because other hosts use it too; not {directory!r}")


def passes(repeat: int, epoch: int | None) -> range | None:
    """The passes over the data that make up `epoch` of a pipeline, of which each is `repeat` passes; None: pass after
    pass, without end (`epoch` None, or `repeat` 0).

    A pass is what examples draw for: it is their `epoch`. Raises UsageError for an epoch behind one without end.
    """
    if epoch is None or repeat == ENDLESS:
        if epoch:
            raise UsageError(f"there is no epoch {epoch} behind one that repeats without end: say repeat(epochs)")
        return None
    return range(epoch * repeat, (epoch + 1) * repeat)


def read_side_by_side(
    splits: tf.data.Dataset, read: Callable[..., tf.data.Dataset], interleave: int
) -> tf.data.Dataset:
    """The records of a stream of splits, `interleave` of them at once, an example of each in turn.

    The order is fixed: the next split of the stream takes the place of one that has ended, a turn later. With DYNAMIC
    sharding, where each worker asks for its next split when it needs it, each holds `interleave` of them; each split
    still goes to one worker, once. In a stream without end, the last splits of a pass are read together with the first
    of the next, and every pass still has each example once.
    """
    if interleave == 1:
        return splits.interleave(read, cycle_length=1, num_parallel_calls=None)
    return splits.interleave(
        read, cycle_length=interleave, block_length=1, num_parallel_calls=interleave, deterministic=True
    )


def cached(records: tf.data.Dataset, directory: str, fingerprint: str, split: tf.Tensor) -> tf.data.Dataset:
    """The records of one split: written to `directory` while they are read the first time, and read from there when
    they are there to the last one. `fingerprint`: of the source; another one has other files. split: int64 [].

    tf.data's snapshot keeps what is under way apart from what is complete: a reader that is stopped leaves a part that
    nobody reads, and of two who write the same split at once, both read on undisturbed. (Its `cache` would end both
    with an error.) Needs no lock, so a directory may be shared by hosts.
    """
    place = tf.strings.join([f"{directory.rstrip('/')}/{fingerprint[:16]}/split-", tf.strings.as_string(split)])
    return records.snapshot(
        place,
        compression=None,
        # One file, in the order of the source.
        shard_func=lambda *_: tf.constant(0, tf.int64),
        reader_func=lambda files: files.flat_map(lambda file: file),
    )
