"""Fusion: neighbouring stages that can be one operation become one when a pipeline is lowered.

`Pipeline.explain()` shows which stages are fused. These neighbours are:

- stages that only move pixels (`Geometric`) and have the same fill: their coordinates are composed, and the image is
  sampled once. The picture is sharper than after several samplings, each of which blurs. The fill begins at the edge of
  the first image.
- stages that are straight lines with ends (`Stage.line`) and lead to float32: one multiply-add, clipped. Levels are not
  rounded between the stages.
- pointwise stages that start from uint8: one look-up table. It is made by applying the stages to the ramp of all 256
  levels, so it gives exactly the values that they give.
- `decode`, a stage that takes a window out of the image, and a horizontal flip: only the window is decoded, and the
  resampling writes it mirrored where it is flipped.
- a window and a horizontal flip: one resampling.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from tfhet.placement.declaration import PlacedStage
from tfhet.stages import Decode, ImageSpec, RandomFlip, Stage
from tfhet.stages.decoding import decode_windows
from tfhet.stages.decoding import sizes as image_sizes
from tfhet.stages.geometric import Geometric
from tfhet.stages.line import Line, apply_line
from tfhet.stages.projection import composed, project
from tfhet.stages.resampling import resize_windows
from tfhet.stages.table import lookup
from tfhet.stages.window import Window

Drawn = Mapping[str, tf.Tensor]
"""The random parameters of one stage."""


@dataclass(frozen=True)
class Step:
    """One operation of a lowered pipeline: one stage, or in a subclass several fused ones."""

    stages: tuple[PlacedStage, ...]
    """Stages in running order, at least one."""
    input: ImageSpec
    """Spec of the images before the first stage."""

    does = ""
    """What the fused stages do together, for people; "" for one stage."""

    @property
    def output(self) -> ImageSpec:
        """Spec of the images after the last stage."""
        return self.stages[-1].output

    @property
    def inputs(self) -> tuple[ImageSpec, ...]:
        """Specs of the images before each stage."""
        return (self.input, *(placed.output for placed in self.stages[:-1]))

    def run(self, images: tf.Tensor, drawn: Sequence[Drawn]) -> tf.Tensor:
        """Returns the images after the stages. images: as `input` says. drawn: the parameters of each stage."""
        return self.stages[0].stage.apply(images, drawn[0])


class Sampling(Step):
    """Stages that only move pixels, as one bilinear sampling of the composed coordinates."""

    does = "one sampling"

    def run(self, images: tf.Tensor, drawn: Sequence[Drawn]) -> tf.Tensor:
        shape = tf.shape(images)
        height, width = shape[1], shape[2]
        size, transforms = None, []
        for placed, spec, own in zip(self.stages, self.inputs, drawn, strict=True):
            stage = placed.stage
            assert isinstance(stage, Geometric)
            transforms.append(stage.transforms(own, height, width))
            if (given := stage.size(spec)) is not None:
                size = height, width = given
        mode, value = _fill(self.stages) or ("nearest", 0.0)
        return project(images, composed(*transforms), mode, value, size)


class Resampling(Step):
    """A window of decoded images, and perhaps a horizontal flip."""

    does = "one resampling of the window"

    def run(self, images: tf.Tensor, drawn: Sequence[Drawn]) -> tf.Tensor:
        window = self._window
        shape = tf.shape(images)
        sizes = tf.tile(shape[tf.newaxis, 1:3], [shape[0], 1])
        place = window.windows(drawn[0], sizes)
        flips = drawn[-1].get("flip_horizontal")
        return resize_windows(images, place, flips, window.height, window.width, window.antialias, window.confined)

    @property
    def _window(self) -> Window:
        return next(placed.stage for placed in self.stages if isinstance(placed.stage, Window))


class Decoding(Resampling):
    """A window of images in their files, and perhaps a horizontal flip."""

    does = "one decoding of the window"

    def run(self, images: tf.Tensor, drawn: Sequence[Drawn]) -> tf.Tensor:
        window = self._window
        return decode_windows(
            images,
            window.windows(drawn[1], image_sizes(images)),
            drawn[-1].get("flip_horizontal"),
            window.height,
            window.width,
            self.output.channels,
            window.antialias,
            window.confined,
        )


class Straight(Step):
    """Stages that are straight lines, as one line."""

    does = "one multiply-add"

    def run(self, images: tf.Tensor, drawn: Sequence[Drawn]) -> tf.Tensor:
        line: Line | None = None
        for placed, spec, own in zip(self.stages, self.inputs, drawn, strict=True):
            found = placed.stage.measured(images) if placed.stage.measures else {}
            own_line = placed.stage.line({**own, **found}, spec)
            if own_line is None:  # the stage's configuration is not a line
                return self._one_by_one(images, drawn)
            line = own_line if line is None else line.then(own_line)
        assert line is not None
        return apply_line(images, line, tf.as_dtype(self.output.dtype))

    def _one_by_one(self, images: tf.Tensor, drawn: Sequence[Drawn]) -> tf.Tensor:
        for placed, own in zip(self.stages, drawn, strict=True):
            images = placed.stage.apply(images, own)
        return images


class Table(Step):
    """Pointwise stages of uint8 images, as one look-up table for each image, or one for all."""

    does = "one look-up table"

    def run(self, images: tf.Tensor, drawn: Sequence[Drawn]) -> tf.Tensor:
        rows = 1 if not any(drawn) else tf.shape(images)[0]
        channels = self.input.channels
        ramp = tf.reshape(tf.range(256), [1, 1, 256, 1])
        levels = tf.cast(tf.tile(ramp, [rows, 1, 1, channels]), tf.uint8)
        for placed, own in zip(self.stages, drawn, strict=True):
            levels = placed.stage.apply(levels, own)
        return lookup(images, levels[:, 0])


def fuse(placed: Sequence[PlacedStage], source: ImageSpec) -> tuple[Step, ...]:
    """Returns the steps of stages in running order; source: spec of the images before the first of them."""
    steps: list[Step] = []
    rest = list(placed)
    spec = source
    while rest:
        step = _first(rest, spec)
        steps.append(step)
        del rest[: len(step.stages)]
        spec = step.output
    return tuple(steps)


def unfused(placed: Sequence[PlacedStage], source: ImageSpec) -> tuple[Step, ...]:
    """Returns a step for every stage."""
    specs = (source, *(each.output for each in placed))
    return tuple(Step((each,), spec) for each, spec in zip(placed, specs, strict=False))


def _first(rest: Sequence[PlacedStage], spec: ImageSpec) -> Step:
    """Returns the longest step that begins with the first of `rest`; of equally long ones the first in KINDS."""
    for count in range(len(rest), 1, -1):
        for kind, joins in KINDS:
            if joins(rest[:count], spec):
                return kind(tuple(rest[:count]), spec)
    return Step((rest[0],), spec)


def _sampled(run: Sequence[PlacedStage], spec: ImageSpec) -> bool:
    """Whether all stages only move pixels, and agree on the fill beyond the edge."""
    stages = [placed.stage for placed in run]
    if spec.form != "images" or not all(
        isinstance(stage, Geometric) and stage.moves and _describes("transforms", stage) for stage in stages
    ):
        return False
    return len({stage.fill for stage in stages if isinstance(stage, Geometric) and stage.fill is not None}) <= 1


def _fill(run: Sequence[PlacedStage]) -> tuple[str, float] | None:
    fills = [placed.stage.fill for placed in run if isinstance(placed.stage, Geometric)]
    return next((fill for fill in fills if fill is not None), None)


def _straight(run: Sequence[PlacedStage], spec: ImageSpec) -> bool:
    """Whether all stages are lines that lead to float32: between uint8 images each would round to a whole level."""
    if any(placed.stage.measures for placed in run[1:]):
        return False  # the images that it has to measure would not be made
    dtypes = [spec.dtype, *(placed.output.dtype for placed in run)]
    if ("float32", "uint8") in itertools.pairwise(dtypes):
        return False  # that stage exists to round
    lines = all(type(p.stage).line is not Stage.line and _describes("line", p.stage) for p in run)
    return dtypes[-1] == "float32" and lines


def _looked_up(run: Sequence[PlacedStage], spec: ImageSpec) -> bool:
    """Whether the stages can give only 256 different results for a channel of an image."""
    return spec.dtype == "uint8" and all(
        placed.stage.pointwise and _describes("pointwise", placed.stage) for placed in run
    )


def _decoded(run: Sequence[PlacedStage], spec: ImageSpec) -> bool:
    plain = isinstance(run[0].stage, Decode) and type(run[0].stage).apply is Decode.apply
    return plain and (len(run) == 2 or _flipped(run[1:])) and _is_window(run[1])


def _resampled(run: Sequence[PlacedStage], spec: ImageSpec) -> bool:
    return spec.form == "images" and _flipped(run)


def _flipped(run: Sequence[PlacedStage]) -> bool:
    """Whether the two stages are a window and a horizontal flip."""
    flip = run[1].stage
    plain = isinstance(flip, RandomFlip) and not flip.vertical and _describes("transforms", flip)
    return plain and len(run) == 2 and _is_window(run[0])


def _is_window(placed: PlacedStage) -> bool:
    return isinstance(placed.stage, Window) and placed.stage.bilinear and _describes("windows", placed.stage)


def _describes(name: str, stage: Stage) -> bool:
    """Whether the stage's member `name` describes the `apply` that the stage has.

    A subclass that replaces `apply` alone inherits members that describe another `apply`: such a stage is not fused.
    """
    return issubclass(_definer(name, type(stage)), _definer("apply", type(stage)))


def _definer(name: str, kind: type[Stage]) -> type:
    """The class that `kind` has the member `name` from."""
    return next(each for each in kind.__mro__ if name in vars(each))


KINDS: tuple[tuple[type[Step], Callable[[Sequence[PlacedStage], ImageSpec], bool]], ...] = (
    (Decoding, _decoded),
    (Resampling, _resampled),
    (Sampling, _sampled),
    (Straight, _straight),  # before Table, whose look-up costs more
    (Table, _looked_up),
)
"""The kinds of fused steps, each with a function that says whether a run of at least two stages is one."""
