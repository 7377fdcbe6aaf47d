"""Lines, tables, statistics and noise: the stages that change levels."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from oracle import randomness
from oracle.table import APPLIES, DRAWS, FULL, LINES, MEASURES, Drawn, entered
from tfhet.stages import Stage


class Line(NamedTuple):
    """min(max(scale * x + offset, low), high), each float32 [1 or batch, 1 or channels]."""

    scale: np.ndarray
    offset: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, scale: Any = 1.0, offset: Any = 0.0, low: float = -math.inf, high: float = math.inf) -> Line:
        """Numbers, vectors of channels, or matrices."""
        return cls(*(np.atleast_2d(np.float32(part)) for part in (scale, offset, low, high)))

    def then(self, other: Line) -> Line:
        # Never 0 times an infinite end: a scale of 0 makes every value the offset.
        with np.errstate(invalid="ignore"):
            ends = [np.where(other.scale == 0, 0, end * other.scale) + other.offset for end in (self.low, self.high)]
        return Line(
            self.scale * other.scale,
            self.offset * other.scale + other.offset,
            np.clip(np.minimum(*ends), other.low, other.high),
            np.clip(np.maximum(*ends), other.low, other.high),
        )


def applied(line: Line, images: np.ndarray, dtype: str) -> np.ndarray:
    scale, offset, low, high = (part[:, None, None] for part in line)
    values = np.minimum(np.maximum(images.astype(np.float32) * scale + offset, low), high)
    return rounded(values) if dtype == "uint8" else values


def rounded(values: np.ndarray) -> np.ndarray:
    """float32 to uint8: halves up, clipped."""
    return np.clip(values + 0.5, 0.0, 255.0).astype(np.uint8)


def restored(values: np.ndarray, dtype: Any) -> np.ndarray:
    """float32 to uint8 in 0..255 or float32 in 0..1, clipped."""
    return rounded(values) if dtype == np.uint8 else np.clip(values, 0.0, 1.0)


def in_levels(images: np.ndarray) -> np.ndarray:
    """float32 in 0..1 to the nearest of 256 levels, uint8."""
    return images if images.dtype == np.uint8 else rounded(images * np.float32(255.0))


def as_given(levels: np.ndarray, dtype: Any) -> np.ndarray:
    return levels if dtype == np.uint8 else levels.astype(np.float32) * np.float32(1.0 / 255.0)


def looked_up(images: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """tables: [1 or batch, 256, 1 or channels]."""
    batch, *_, channels = images.shape
    tables = np.broadcast_to(tables, (batch, 256, channels))
    return tables[np.arange(batch)[:, None, None, None], in_levels(images), np.arange(channels)]


def of_channels(images: np.ndarray, reduce: Any) -> np.ndarray:
    """float32 [batch, channels]: the mean, lowest or highest value."""
    return np.float32(reduce(np.float64(images), axis=(1, 2)))


# Stages that are lines.


@entered(LINES, "rescale")
def _rescale(stage: Stage, drawn: Drawn, dtype: str) -> Line:
    return Line.of(stage.scale, stage.offset)


@entered(LINES, "cast")
def _cast(stage: Stage, drawn: Drawn, dtype: str) -> Line:
    return Line.of(low=0.0, high=255.0) if stage.dtype == "uint8" else Line.of()


@entered(LINES, "normalize")
def _normalize(stage: Stage, drawn: Drawn, dtype: str) -> Line:
    mean, std = np.array(stage.mean), np.array(stage.std)
    return Line.of(1.0 / (FULL[dtype] * std), -mean / std)


@entered(LINES, "invert")
def _inverted(stage: Stage, drawn: Drawn, dtype: str) -> Line:
    return Line.of(-1.0, FULL[dtype])


@entered(LINES, "random_brightness")
def _brightened(stage: Stage, drawn: Drawn, dtype: str) -> Line:
    return Line.of(1.0, drawn["brightness"][:, None] * np.float32(FULL[dtype]), 0.0, FULL[dtype])


@entered(DRAWS, "random_brightness")
def _brightness(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    return {"brightness": randomness.uniform(keys, 0, -stage.delta, stage.delta)}


@entered(MEASURES, "autocontrast")
def _extremes(images: np.ndarray) -> dict[str, np.ndarray]:
    return {"low": of_channels(images, np.min), "high": of_channels(images, np.max)}


@entered(LINES, "autocontrast")
def _stretched(stage: Stage, found: Drawn, dtype: str) -> Line:
    """Pillow's `ImageOps.autocontrast`, but rounded."""
    low, high, full = found["low"], found["high"], np.float32(FULL[dtype])
    plain = high <= low
    scale = np.where(plain, np.float32(1.0), full / np.where(plain, np.float32(1.0), high - low))
    return Line.of(scale, np.where(plain, 0.0, -low * scale), 0.0, full)


@entered(DRAWS, "random_contrast")
def _contrast(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    return {"contrast": randomness.uniform(keys, 0, stage.lower, stage.upper)}


@entered(MEASURES, "random_contrast")
def _mean(images: np.ndarray) -> dict[str, np.ndarray]:
    return {"mean": of_channels(images, np.mean)}


@entered(LINES, "random_contrast")
def _contrasted(stage: Stage, found: Drawn, dtype: str) -> Line:
    """`tf.image.random_contrast`."""
    factor = found["contrast"][:, None]
    return Line.of(factor, found["mean"] * (1.0 - factor), 0.0, FULL[dtype])


@entered(APPLIES, *LINES)
def _by_line(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    given = images.dtype.name
    dtype = "float32" if stage.name in ("rescale", "normalize") else stage.dtype if stage.name == "cast" else given
    if stage.name == "cast" and dtype in (given, "float32"):
        return images.astype(dtype)
    return applied(line_of(stage, images, drawn), images, dtype)


def line_of(stage: Stage, images: np.ndarray, drawn: Drawn, dtype: str | None = None) -> Line:
    """Returns the line of a stage, which may be after others that led to `dtype`."""
    measured = MEASURES[stage.name](images) if stage.name in MEASURES else {}
    return LINES[stage.name](stage, {**drawn, **measured}, dtype or images.dtype.name)


# Other levels.


@entered(APPLIES, "solarize")
def _solarized(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """Pillow's `ImageOps.solarize`."""
    full, threshold = (255, stage.threshold) if images.dtype == np.uint8 else (1.0, np.float32(stage.threshold / 255.0))
    if stage.threshold == 256:
        return images
    return np.where(images >= threshold, (full - images).astype(images.dtype), images)


@entered(APPLIES, "posterize")
def _posterized(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """Pillow's `ImageOps.posterize`."""
    return as_given(in_levels(images) & np.uint8(256 - 2 ** (8 - stage.bits)), images.dtype)


@entered(APPLIES, "gamma")
def _gamma(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """`tf.image.adjust_gamma`."""
    if images.dtype == np.uint8:
        exact = stage.gain * (np.arange(256) / 255.0) ** stage.gamma * 255.0
        return np.minimum(np.floor(exact + 0.5), 255.0).astype(np.uint8)[images]
    return np.minimum(np.float32(np.float64(images) ** stage.gamma) * np.float32(stage.gain), np.float32(1.0))


@entered(APPLIES, "equalize")
def equalized(stage: Stage | None, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """Pillow's `ImageOps.equalize`: a step is a 255th of the pixels below the brightest level."""
    levels = in_levels(images)
    tables = np.zeros((len(images), 256, images.shape[3]), np.uint8)
    for image, channel in np.ndindex(len(images), images.shape[3]):
        counts = np.bincount(levels[image, :, :, channel].ravel(), minlength=256)
        below = np.cumsum(counts) - counts
        step = below[below < counts.sum()].max() // 255
        spread = np.minimum((below + step // 2) // max(step, 1), 255)
        tables[image, :, channel] = spread if step > 0 else np.arange(256)
    return looked_up(levels, as_given(tables, images.dtype))


@entered(DRAWS, "gaussian_noise")
def _noise_seeds(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    return {"noise": randomness.absorb(keys, 0)}


@entered(APPLIES, "gaussian_noise")
def _noisy(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    count = math.prod(images.shape[1:])
    noise = normals(drawn["noise"], count).reshape(images.shape)
    return restored(images + noise * np.float32(stage.stddev * FULL[images.dtype.name]), images.dtype)


def normals(seeds: np.ndarray, count: int) -> np.ndarray:
    """Normal numbers, float32 [batch, count], by Box-Muller: 16 bits each for radius and angle."""
    words = np.arange((count + 3) // 4, dtype=np.uint64)
    halves = randomness.absorb(seeds[:, None], words).view(np.int32)  # the lower half of a word first
    radius = np.sqrt(np.float32(-2.0) * np.log((np.float32(halves & 0xFFFF) + np.float32(0.5)) * np.float32(2.0**-16)))
    angle = np.float32(halves >> 16) * np.float32(2.0 * math.pi * 2.0**-16)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :count]
