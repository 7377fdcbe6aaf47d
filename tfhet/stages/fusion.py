"""Fusion: neighbouring stages that can be one operation become one when a pipeline is lowered."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tfhet.stages.decoding import Decode
from tfhet.stages.motion import RandomFlip
from tfhet.stages.projection import Geometric
from tfhet.stages.resampling import Window
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@dataclass(frozen=True)
class PlacedStage:
    """A stage of a pipeline with its declared position, on which its random numbers depend, and its output."""

    stage: Stage
    declared: int
    """Position in `Pipeline.stages`, from 0."""
    output: ImageSpec


@dataclass(frozen=True)
class Step:
    """One operation of a pipeline: one stage, or several fused ones."""

    stages: tuple[PlacedStage, ...]
    """Stages in running order, at least one."""
    input: ImageSpec
    """Spec of the images before the first stage."""
    kind: str = "single"
    """Name of the step in the compiled core (`kernels/fusion.cc`)."""
    does: str = ""
    """Description of the fused stages for `explain()`; "" for one stage."""

    @property
    def inputs(self) -> tuple[ImageSpec, ...]:
        """Specs of the images before each stage."""
        return (self.input, *(placed.output for placed in self.stages[:-1]))

    def config(self) -> dict[str, Any]:
        """Returns what the compiled core needs besides the stages."""
        if self.kind != "sampling":
            return {}
        mode, value = next(iter(_fills([placed.stage for placed in self.stages])), ("nearest", 0.0))
        return {"fill": mode, "value": value}


Run: TypeAlias = Sequence[Stage]
Specs: TypeAlias = Sequence[ImageSpec]
"""Specs before the first stage of a run, and after each stage."""


def _is_decoding(run: Run, specs: Specs) -> bool:
    """A window of images in their files, and perhaps a horizontal flip: only the window is decoded."""
    return isinstance(run[0], Decode) and (_is_window(run[1]) if len(run) == 2 else _is_flipped_window(run[1:]))


def _is_resampling(run: Run, specs: Specs) -> bool:
    """A window of decoded images, and a horizontal flip: the resampling writes the window mirrored."""
    return specs[0].form == "images" and _is_flipped_window(run)


def _is_sampling(run: Run, specs: Specs) -> bool:
    """Stages that only move pixels and have the same fill, as one bilinear sampling, which blurs less than several. The
    fill begins at the first image's edge."""
    return specs[0].form == "images" and all(_moves(stage) for stage in run) and len(_fills(run)) <= 1


def _is_straight(run: Run, specs: Specs) -> bool:
    """Stages that are straight lines with ends and lead to float32. Levels are not rounded between the stages."""
    dtypes = [spec.dtype for spec in specs]
    # A uint8 result would be rounded after each stage. After a stage that rounds, or before one that measures the
    # images, the values are needed as they are.
    if dtypes[-1] != "float32" or ("float32", "uint8") in itertools.pairwise(dtypes):
        return False
    return all(stage.is_line for stage in run) and not any(stage.measures for stage in run[1:])


def _is_table(run: Run, specs: Specs) -> bool:
    """Pointwise stages of uint8 images, as one look-up table for each image: the stages, applied to the ramp of all 256
    levels, so that it gives exactly the values that they give."""
    return specs[0].dtype == "uint8" and all(stage.pointwise for stage in run)


KINDS: tuple[tuple[str, str, Callable[[Run, Specs], bool]], ...] = (
    ("window", "one decoding of the window", _is_decoding),
    ("window", "one resampling of the window", _is_resampling),
    ("sampling", "one sampling", _is_sampling),
    ("straight", "one multiply-add", _is_straight),
    ("table", "one look-up table", _is_table),
)
"""The kinds of fused steps: name in the core, description, and whether at least two stages are such a step. If several
kinds join as many stages, the first is taken: a line costs less than a look-up."""


def placed(stages: Sequence[Stage], source: ImageSpec, reorder: bool = True) -> tuple[PlacedStage, ...]:
    """Returns the stages in the order in which they run, each with its output.

    Args:
        stages: In their declared order.
        source: Spec of the images before the first stage.
        reorder: Whether `rescale` may move after stages that commute with it, which keeps images uint8 for longer.

    Raises:
        UsageError: A stage does not fit its images.
    """
    declared = [(stage, position) for position, stage in enumerate(stages)]
    spec, result = source, []
    for stage, position in _deferred(declared, source) if reorder else declared:
        stage.admit(spec)
        spec = stage.spec(spec)
        result.append(PlacedStage(stage, position, spec))
    return tuple(result)


def _deferred(stages: list[tuple[Stage, int]], source: ImageSpec) -> list[tuple[Stage, int]]:
    """Moves each rescale after the stages that commute with it, where that keeps images uint8 for longer."""
    order: list[tuple[Stage, int]] = []
    held: list[tuple[Stage, int]] = []
    spec = source
    for stage, position in stages:
        if stage.rescales and spec.dtype == "uint8":
            held.append((stage, position))
            continue
        if held and not stage.commutes_with_rescale:
            order += held
            for waiting, _ in held:
                spec = waiting.spec(spec)
            held = []
        order.append((stage, position))
        spec = stage.spec(spec)
    return order + held


def fuse(placed: Sequence[PlacedStage], source: ImageSpec, together: bool = True) -> tuple[Step, ...]:
    """Returns the steps of stages in running order. source: spec of the images before the first of them. together:
    whether neighbouring stages become one step where they can."""
    steps: list[Step] = []
    begin, spec = 0, source
    while begin < len(placed):
        step = _longest(placed[begin:], spec) if together else Step((placed[begin],), spec)
        steps.append(step)
        begin, spec = begin + len(step.stages), step.stages[-1].output
    return tuple(steps)


def _longest(rest: Sequence[PlacedStage], spec: ImageSpec) -> Step:
    stages, specs = [placed.stage for placed in rest], [spec, *(placed.output for placed in rest)]
    compiled = next((place for place, stage in enumerate(stages) if not stage.is_compiled), len(stages))
    for count in range(compiled, 1, -1):
        for kind, does, joins in KINDS:
            if joins(stages[:count], specs[: count + 1]):
                return Step(tuple(rest[:count]), spec, kind, does)
    return Step((rest[0],), spec)


def _moves(stage: Stage) -> bool:
    return isinstance(stage, Geometric) and stage.moves


def _fills(stages: Sequence[Stage]) -> set[tuple[str, float]]:
    return {stage.fill for stage in stages if isinstance(stage, Geometric) and stage.fill is not None}


def _is_flipped_window(run: Run) -> bool:
    return len(run) == 2 and _is_window(run[0]) and isinstance(run[1], RandomFlip) and not run[1].vertical


def _is_window(stage: Stage) -> bool:
    return isinstance(stage, Window) and stage.bilinear
