"""Fusion: neighbouring stages that can be one operation become one when a pipeline is lowered."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import decoding
from tfhet.stages.levels import lookup
from tfhet.stages.line import Line, apply_line
from tfhet.stages.motion import RandomFlip
from tfhet.stages.projection import Geometric, composed, project
from tfhet.stages.resampling import Window, resize_windows
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage

Drawn = Mapping[str, tf.Tensor]
"""The random parameters of one stage."""


@dataclass(frozen=True)
class PlacedStage:
    """A stage of a pipeline with its declared position, on which its random numbers depend, and its output."""

    stage: Stage
    declared: int
    """Position in `Pipeline.stages`, from 0."""
    output: ImageSpec


@dataclass(frozen=True)
class Step:
    """One operation of a lowered pipeline: one stage, or in a subclass several fused ones."""

    stages: tuple[PlacedStage, ...]
    """Stages in running order, at least one."""
    input: ImageSpec
    """Spec of the images before the first stage."""

    does: ClassVar[str] = ""
    """Description of the fused stages for `explain()`; "" for one stage."""

    @classmethod
    def joins(cls, run: Sequence[Stage], specs: Sequence[ImageSpec]) -> bool:
        """Whether at least two stages can be this operation. specs: before the first stage, and after each."""
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[ImageSpec, ...]:
        """Specs of the images before each stage."""
        return (self.input, *(placed.output for placed in self.stages[:-1]))

    def run(self, images: tf.Tensor, drawn: Sequence[Drawn]) -> tf.Tensor:
        """Returns the images after the stages. images: as `input` says. drawn: the parameters of each stage."""
        for placed, own in zip(self.stages, drawn, strict=True):
            images = placed.stage.apply(images, own)
        return images


class Resampling(Step):
    """A window of decoded images, and a horizontal flip: the resampling writes the window mirrored."""

    does = "one resampling of the window"

    @classmethod
    def joins(cls, run: Sequence[Stage], specs: Sequence[ImageSpec]) -> bool:
        return specs[0].form == "images" and _flipped_window(run)

    def run(self, images: tf.Tensor, drawn: Sequence[Drawn]) -> tf.Tensor:
        window = _window(self)
        place = window.windows(drawn[0], tf.shape(images)[tf.newaxis, 1:3])
        return resize_windows(images, place, drawn[-1].get("flip_horizontal"), window.scaling)


class Decoding(Step):
    """A window of images in their files, and perhaps a horizontal flip: only the window is decoded."""

    does = "one decoding of the window"

    @classmethod
    def joins(cls, run: Sequence[Stage], specs: Sequence[ImageSpec]) -> bool:
        if type(run[0]).apply is not decoding.Decode.apply:
            return False
        return _is_window(run[1]) if len(run) == 2 else _flipped_window(run[1:])

    def run(self, images: tf.Tensor, drawn: Sequence[Drawn]) -> tf.Tensor:
        window, decode = _window(self), self.stages[0].stage
        assert isinstance(decode, decoding.Decode)
        return decoding.decode_windows(
            images,
            window.windows(drawn[1], decoding.sizes(images, decode.upright)),
            drawn[-1].get("flip_horizontal"),
            window.scaling,
            self.stages[-1].output.channels,
            decode.upright,
            decode.accurate,
        )


class Sampling(Step):
    """Stages that only move pixels and have the same fill, as one bilinear sampling, which blurs less than several. The
    fill begins at the first image's edge."""

    does = "one sampling"

    @classmethod
    def joins(cls, run: Sequence[Stage], specs: Sequence[ImageSpec]) -> bool:
        moving = [s for s in run if isinstance(s, Geometric) and s.moves and "transforms" in s.describes]
        return specs[0].form == "images" and len(moving) == len(run) and len(_fills(moving)) <= 1

    def run(self, images: tf.Tensor, drawn: Sequence[Drawn]) -> tf.Tensor:
        height, width = tf.unstack(tf.shape(images)[1:3])
        size, transforms = None, []
        moving = [placed.stage for placed in self.stages if isinstance(placed.stage, Geometric)]
        for stage, spec, own in zip(moving, self.inputs, drawn, strict=True):
            transforms.append(stage.transforms(own, height, width))
            if (given := stage.size(spec)) is not None:
                size = height, width = given
        mode, value = next(iter(_fills(moving)), ("nearest", 0.0))
        return project(images, composed(*transforms), mode, value, size)


class Straight(Step):
    """Stages that are straight lines with ends and lead to float32. Levels are not rounded between the stages."""

    does = "one multiply-add"

    @classmethod
    def joins(cls, run: Sequence[Stage], specs: Sequence[ImageSpec]) -> bool:
        dtypes = [spec.dtype for spec in specs]
        # A uint8 result would be rounded after each stage. After a stage that rounds, or before one that measures the
        # images, the values are needed as they are.
        if dtypes[-1] != "float32" or ("float32", "uint8") in itertools.pairwise(dtypes):
            return False
        return all("line" in stage.describes for stage in run) and not any(stage.measures for stage in run[1:])

    def run(self, images: tf.Tensor, drawn: Sequence[Drawn]) -> tf.Tensor:
        lines = []
        for placed, spec, own in zip(self.stages, self.inputs, drawn, strict=True):
            measured = placed.stage.measured(images) if placed.stage.measures else {}
            line = placed.stage.line({**own, **measured}, spec)
            if line is None:  # with this configuration the stage is not a line
                return super().run(images, drawn)
            lines.append(line)
        return apply_line(images, functools.reduce(Line.then, lines), tf.float32)


class Table(Step):
    """Pointwise stages of uint8 images, as one look-up table for each image, or one for all: the stages, applied to the
    ramp of all 256 levels, so that it gives exactly the values that they give."""

    does = "one look-up table"

    @classmethod
    def joins(cls, run: Sequence[Stage], specs: Sequence[ImageSpec]) -> bool:
        return specs[0].dtype == "uint8" and all(s.pointwise and "pointwise" in s.describes for s in run)

    def run(self, images: tf.Tensor, drawn: Sequence[Drawn]) -> tf.Tensor:
        rows = tf.shape(images)[0] if any(drawn) else 1
        ramp = tf.reshape(tf.range(256), [1, 1, 256, 1])
        levels = tf.cast(tf.tile(ramp, [rows, 1, 1, self.input.channels]), tf.uint8)
        return lookup(images, super().run(levels, drawn)[:, 0])


KINDS: tuple[type[Step], ...] = (Decoding, Resampling, Sampling, Straight, Table)
"""The kinds of fused steps. Of those that join as many stages the first is taken: a line costs less than a look-up."""


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
    for count in range(len(rest), 1, -1):
        for kind in KINDS:
            if kind.joins(stages[:count], specs[: count + 1]):
                return kind(tuple(rest[:count]), spec)
    return Step((rest[0],), spec)


def _fills(stages: Sequence[Geometric]) -> set[tuple[str, float]]:
    return {stage.fill for stage in stages if stage.fill is not None}


def _flipped_window(run: Sequence[Stage]) -> bool:
    if len(run) != 2 or not _is_window(run[0]):
        return False
    flip = run[1]
    return isinstance(flip, RandomFlip) and not flip.vertical and "transforms" in flip.describes


def _is_window(stage: Stage) -> bool:
    return isinstance(stage, Window) and stage.bilinear and "windows" in stage.describes


def _window(step: Step) -> Window:
    return next(placed.stage for placed in step.stages if isinstance(placed.stage, Window))
