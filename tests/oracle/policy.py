"""RandAugment and TrivialAugment: operations and strengths as in torchvision, moves bilinear, levels rounded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oracle import colour, filters, motion, randomness, tone
from oracle.table import APPLIES, DRAWS, FULL, Drawn, dealt_out, entered
from tfhet import stages
from tfhet.stages import Stage

# fmt: off
OPERATIONS = (
    "identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "brightness", "contrast", "color",
    "sharpness", "posterize", "solarize", "autocontrast", "equalize",
)
# fmt: on
BINS = 31
LARGEST = {
    "randaugment": {"shear": 0.3, "move": 150 / 331, "degrees": 30, "change": 0.9, "bits": 4},
    "trivialaugment": {"shear": 0.99, "move": 32, "degrees": 135, "change": 0.99, "bits": 2},
}
"""Largest strength of each kind of operation; bits: the fewest that stay."""


def strengths(name: str) -> np.ndarray:
    """float32 [14, 31]."""
    rising, most = np.linspace(0.0, 1.0, BINS), LARGEST[name]
    kinds = ["", *["shear"] * 2, *["move"] * 2, "degrees", *["change"] * 4]
    rows = [most[kind] * rising if kind else 0.0 * rising for kind in kinds]
    rows += [8.0 - np.round((8 - most["bits"]) * rising), np.ceil(255.0 * (1.0 - rising) - 1e-9), *[0.0 * rising] * 2]
    return np.float32(rows)


@entered(DRAWS, "randaugment", "trivialaugment")
def _operations(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    table, operations, drawn = strengths(stage.name), [], []
    for layer in range(stage.num_layers):
        operation = randomness.below(keys, 3 * layer, len(OPERATIONS))
        own = randomness.below(keys, 3 * layer + 1, BINS) if stage.magnitude is None else stage.magnitude
        turned = (operation >= 1) & (operation <= 9) & randomness.bernoulli(keys, 3 * layer + 2)
        operations.append(operation)
        drawn.append(np.where(turned, -table[operation, own], table[operation, own]))
    return {"operation": np.stack(operations, axis=1), "strength": np.stack(drawn, axis=1)}


@entered(APPLIES, "randaugment", "trivialaugment")
def _augmented(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    values = tone.in_levels(images)
    fill = float(round(stage.fill_value / FULL[images.dtype.name] * 255.0))
    for operation, strength in zip(drawn["operation"].T, drawn["strength"].T, strict=True):
        found = sorted(set(operation.tolist()))
        parts = [_changed(stage, at, values[operation == at], strength[operation == at], fill) for at in found]
        values = dealt_out(operation, parts) if found else values
    return tone.as_given(values, images.dtype)


def _changed(stage: Stage, operation: int, images: np.ndarray, strength: np.ndarray, fill: float) -> np.ndarray:
    name, (height, width) = OPERATIONS[operation], images.shape[1:3]
    if name == "identity":
        return images
    if name in ("brightness", "contrast", "color"):
        return colour.jittered(None, images, {{"color": "saturation"}.get(name, name): 1 + strength})
    if name == "sharpness":
        return filters.sharpened(images, 1 + strength)
    if name == "autocontrast":
        return APPLIES[name](stages.Autocontrast(), images, {})
    if name == "equalize":
        return tone.equalized(None, images, {})
    if name in ("posterize", "solarize"):
        number, ramp = np.int32(strength)[:, None], np.arange(256)[None]
        posterized = ramp >> np.clip(8 - number, 0, 8) << np.clip(8 - number, 0, 8)
        table = posterized if name == "posterize" else np.where(ramp >= number, 255 - ramp, ramp)
        return tone.looked_up(images, np.uint8(table)[:, :, None])
    if name == "rotate":
        transforms = motion.rotation(strength * np.float32(math.pi / 180.0), height, width)
    elif name == "shear_x":  # about the corner of the upper left pixel, half a pixel from its middle
        transforms = motion.transform(1, strength, strength / 2, 0, 1, 0)
    elif name == "shear_y":
        transforms = motion.transform(1, 0, 0, strength, 1, strength / 2)
    else:
        length = {"translate_x": width, "translate_y": height}[name] if stage.name == "randaugment" else 1
        pixels = np.rint(strength * np.float32(length))
        transforms = motion.translation(*((0 * pixels, pixels) if name == "translate_x" else (pixels, 0 * pixels)))
    return motion.project(images, transforms, ("constant", fill), (height, width))
