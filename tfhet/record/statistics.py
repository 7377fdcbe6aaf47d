"""Statistics of records: order statistics and seeded bootstrap intervals.

The interval is the percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13) of
the median, or of a ratio of medians over pairs that were measured next to each other. It is seeded, so the same samples
give the same interval everywhere. Below about 5 samples it is the range of the samples rather than a statement of
confidence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfhet.errors import UsageError

RESAMPLES = 2000
LEVEL = 0.95
SEED = 20240229


def _array(samples: Sequence[float], what: str = "samples") -> np.ndarray:
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise UsageError(f"{what}: at least one number is needed, got {samples!r}")
    return values


def percentile(samples: Sequence[float], q: float) -> float:
    """The `q`-th percentile (0 to 100), interpolated linearly between neighbours. Raises UsageError without samples."""
    if not 0 <= q <= 100:
        raise UsageError(f"percentile {q}: give a number from 0 to 100")
    return float(np.percentile(_array(samples), q))


def median(samples: Sequence[float]) -> float:
    """The middle sample, or the mean of the two middle ones. Raises UsageError without samples."""
    return float(np.median(_array(samples)))


def _bounds(statistics: np.ndarray, level: float) -> tuple[float, float]:
    tail = (1.0 - level) / 2.0 * 100.0
    low, high = np.percentile(statistics, [tail, 100.0 - tail])
    return float(low), float(high)


def _draws(count: int, resamples: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, count, size=(resamples, count))


def bootstrap_median(
    samples: Sequence[float], *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[float, float]:
    """The interval (low, high) of the median at `level`; of a single sample, the sample itself twice."""
    values = _array(samples)
    if values.size == 1:
        return float(values[0]), float(values[0])
    if values.size > 2000:  # the indices alone would take 16 bytes x resamples x n
        resamples = max(200, resamples * 2000 // values.size)
    return _bounds(np.median(values[_draws(values.size, resamples, seed)], axis=1), level)


def ratio_of_medians(numerator: Sequence[float], denominator: Sequence[float]) -> float:
    """median(numerator) / median(denominator). Raises UsageError without samples, or for a denominator up to 0."""
    below = median(denominator)
    if not below > 0:
        raise UsageError(f"ratio: the median of the denominator is {below}; it must be positive")
    return median(numerator) / below


def bootstrap_ratio(
    numerator: Sequence[float],
    denominator: Sequence[float],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> tuple[float, float]:
    """The interval (low, high) of the ratio of medians of paired samples.

    The i-th samples were measured next to each other, and pairs are drawn, so a drift of the machine that affects both
    cancels. Raises UsageError for unequal lengths, no samples, or a denominator that is not positive.
    """
    above, below = _array(numerator, "numerator"), _array(denominator, "denominator")
    if above.size != below.size:
        raise UsageError(f"paired samples differ in number: {above.size} and {below.size}")
    if not (below > 0).all():
        raise UsageError("ratio: a sample of the denominator is not positive")
    if above.size == 1:
        value = float(above[0] / below[0])
        return value, value
    draws = _draws(above.size, resamples, seed)
    return _bounds(np.median(above[draws], axis=1) / np.median(below[draws], axis=1), level)
