"""Order statistics, and their intervals.

The interval of a figure is the percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
chapter 13) of the median, or of a ratio of medians over pairs that were measured next to each other. It is seeded, so
the same samples give the same interval everywhere. Below about 5 samples it is the range of the samples rather than a
statement of confidence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfhet.errors import UsageError

RESAMPLES = 2000
TAILS_PCT = (2.5, 97.5)
"""Percentiles that bound the 95 % interval."""
SEED = 20240229


def _array(samples: Sequence[float]) -> np.ndarray:
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise UsageError(f"at least one number is needed, got {samples!r}")
    return values


def percentile(samples: Sequence[float], q: float) -> float:
    """The `q`-th percentile (0 to 100), interpolated linearly between neighbours. Raises UsageError without samples."""
    return float(np.percentile(_array(samples), q))


def median(samples: Sequence[float]) -> float:
    """The middle sample, or the mean of the two middle ones. Raises UsageError without samples."""
    return float(np.median(_array(samples)))


def _bounds(statistics: np.ndarray) -> tuple[float, float]:
    low, high = np.percentile(statistics, TAILS_PCT)
    return float(low), float(high)


def _draws(count: int, resamples: int = RESAMPLES) -> np.ndarray:
    return np.random.default_rng(SEED).integers(0, count, size=(resamples, count))


def bootstrap_median(samples: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval (low, high) of the median; of a single sample, the sample itself twice."""
    values = _array(samples)
    if values.size == 1:
        return float(values[0]), float(values[0])
    # The indices alone take 16 bytes x resamples x n.
    resamples = RESAMPLES if values.size <= 2000 else max(200, RESAMPLES * 2000 // values.size)
    return _bounds(np.median(values[_draws(values.size, resamples)], axis=1))


def bootstrap_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval (low, high) of the ratio of medians of paired samples. The i-th samples were measured next to
    each other, and pairs are drawn, so a drift of the machine that affects both cancels. Raises UsageError for unequal
    lengths, no samples, or a denominator that is not positive."""
    above, below = _array(numerator), _array(denominator)
    if above.size != below.size:
        raise UsageError(f"paired samples differ in number: {above.size} and {below.size}")
    if not (below > 0).all():
        raise UsageError("ratio: a sample of the denominator is not positive")
    if above.size == 1:
        value = float(above[0] / below[0])
        return value, value
    draws = _draws(above.size)
    return _bounds(np.median(above[draws], axis=1) / np.median(below[draws], axis=1))
