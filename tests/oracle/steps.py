"""Fused steps, and chains of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from oracle import motion, resize, tone
from oracle.randomness import keys
from oracle.table import TRANSFORMS, Drawn, Images, apply, parameters
from tfhet import stages
from tfhet.stages import ImageSpec, Step


def fused(step: Step, images: Images, drawn: Sequence[Drawn]) -> Images:
    """Returns the images after a step. drawn: the parameters of each stage."""
    members = [placed.stage for placed in step.stages]
    if step.kind == "window":
        if members[0].name == "decode":
            images, members, drawn = apply(members[0], images), members[1:], drawn[1:]
        return resize.resized_window(members[0], images, drawn[0], drawn[-1].get("flip_horizontal"))
    if step.kind == "sampling":
        size, transforms = images.shape[1:3], []
        for stage, own in zip(members, drawn, strict=True):
            transforms.append(TRANSFORMS[stage.name](stage, own, *size))
            size = (stage.height, stage.width) if stage.name == "resize" else size
        fill = next((fill for fill in map(motion.fill_of, members) if fill), ("nearest", 0.0))
        return motion.project(images, motion.composed(*transforms), fill, size)
    if step.kind == "straight":
        specs = zip(members, step.inputs, drawn, strict=True)
        lines = [tone.line_of(stage, images, own, spec.dtype) for stage, spec, own in specs]
        return tone.applied(functools.reduce(tone.Line.then, lines), images, "float32")
    if step.kind == "table":
        ramp = np.arange(256, dtype=np.uint8).reshape(1, 1, 256, 1)
        ramps = np.tile(ramp, (len(images) if any(drawn) else 1, 1, 1, images.shape[3]))
        return tone.looked_up(images, _in_turn(members, ramps, drawn)[:, 0])
    return _in_turn(members, images, drawn)


def _in_turn(members: Sequence[stages.Stage], images: Images, drawn: Sequence[Drawn]) -> Images:
    for stage, own in zip(members, drawn, strict=True):
        images = apply(stage, images, own)
    return images


def run(
    chain: str | Sequence[stages.Stage],
    images: Images,
    ids: np.ndarray,
    seed: int = 0,
    epoch: int | np.ndarray = 0,
    spec: ImageSpec | None = None,
    together: bool = True,
) -> tuple[Images, list[tuple[stages.PlacedStage, dict[str, np.ndarray]]]]:
    """Returns the images after a chain, and the parameters of each stage. spec: of the images, if not `ImageSpec.of`.
    together: whether stages are fused."""
    members = stages.parse(chain) if isinstance(chain, str) else chain
    spec = spec or (ImageSpec.of(images) if isinstance(images, np.ndarray) else ImageSpec.of_files())
    found = []
    for step in stages.fuse(stages.placed(members, spec), spec, together):
        drawn = []
        for placed, given in zip(step.stages, step.inputs, strict=True):
            own = keys(seed, placed.stage.name, placed.declared, epoch, ids)
            drawn.append(parameters(placed.stage, own, given))
        found += zip(step.stages, drawn, strict=True)
        images = fused(step, images, drawn)
    return images, found
