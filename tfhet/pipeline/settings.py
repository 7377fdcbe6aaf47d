"""The flow of examples: settings of a pipeline that may also be written as stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
        if field == "shuffle" and isinstance(value, bool):
            continue
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
