"""What a pipeline is without chance, so that two validations see the same."""

from __future__ import annotations

from dataclasses import replace

from tfhet.placement import Pipeline
from tfhet.stages import CenterCrop, Choice, ImageSpec, PlacedStage, RandomResizedCrop, Resize, Stage


def stages_without_chance(pipeline: Pipeline) -> tuple[Stage, ...]:
    """The pipeline's stages, each as `certain` leaves it."""
    given = [pipeline.input, *(placed.output for placed in pipeline.placed())]
    return tuple(s for p, before in zip(pipeline.placed(), given, strict=False) for s in certain(p, before))


def certain(placed: PlacedStage, given: ImageSpec) -> tuple[Stage, ...]:
    """The stage without chance: as it is, or left out, or, where it makes another size, the middle or all of the image
    at that size; of a choice, where it makes another size or range, the likeliest."""
    height, width = placed.output.height, placed.output.width
    stage = placed.stage
    if not stage.random:
        return (stage,)
    if isinstance(stage, Choice) and not (stage.keeps_shape and stage.keeps_range):
        _, likeliest = max(zip(stage.shares, stage.branches, strict=True), key=lambda pair: pair[0])
        return certain(replace(placed, stage=likeliest), given) if likeliest else ()
    if (height, width) == (given.height, given.width):
        return ()
    assert height and width and given.height and given.width
    if isinstance(stage, RandomResizedCrop) or height > given.height or width > given.width:
        return (Resize(height, width),)
    return (CenterCrop(height, width),)
