"""Order statistics, and their intervals.

The interval of a median lies between two of the samples themselves (Conover, Practical Nonparametric Statistics, 1999,
section 3.2): how often such an interval holds the true median follows from their number alone, whatever their
distribution, as long as they are independent. It is the narrowest that holds it in 95 % of the cases. Fewer than 6
samples have none; then it is their range, with the level that a range of so few has: 94 % of 5, 75 % of 3, 50 % of 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfhet.errors import UsageError

if TYPE_CHECKING:
    import numpy as np  # where it is used: a command line starts in half the time without it

LEVEL = 0.95
"""Least level of an interval, where the samples are many enough."""
_Z = 1.959964
_EXACT = 1000


def _array(samples: Sequence[float]) -> np.ndarray:
    import numpy as np

    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise UsageError(f"at least one number is needed, got {samples!r}")
    return values


def percentile(samples: Sequence[float], q: float) -> float:
    """The `q`-th percentile (0 to 100), interpolated linearly between neighbours. Raises UsageError without samples."""
    import numpy as np

    return float(np.percentile(_array(samples), q))


def median(samples: Sequence[float]) -> float:
    """The middle sample, or the mean of the two middle ones. Raises UsageError without samples."""
    import numpy as np

    return float(np.median(_array(samples)))


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """The interval of the median: low, high, and its level, the probability with which it holds the true median. Of a
    single sample it is the sample itself, and the level 0. Raises UsageError without samples."""
    import numpy as np

    ordered = np.sort(_array(samples))
    left_out, level = _left_out(ordered.size)
    return float(ordered[left_out]), float(ordered[-1 - left_out]), level


def ratios(numerator: Sequence[float], denominator: Sequence[float]) -> list[float]:
    """The ratio of each pair of samples, which were measured next to each other: a drift of the machine that affects
    both cancels. Raises UsageError for unequal lengths, no samples, or a denominator that is not positive."""
    above, below = _array(numerator), _array(denominator)
    if above.size != below.size:
        raise UsageError(f"paired samples differ in number: {above.size} and {below.size}")
    if not (below > 0).all():
        raise UsageError("ratio: a sample of the denominator is not positive")
    return (above / below).tolist()


def share_interval(hits: int, count: int) -> tuple[float, float]:
    """The interval of about 95 % of a share, `hits` of `count` independent cases: low and high, from 0 to 1 (Wilson,
    JASA 22, 1927). Raises UsageError for no case, or more hits than cases."""
    if not 0 <= hits <= count or count < 1:
        raise UsageError(f"a share needs 0 to n of n cases, n at least 1, got {hits} of {count}")
    share, spread = hits / count, _Z * _Z / count
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def _left_out(count: int) -> tuple[int, float]:
    """Number of samples below the interval, as many as above it, and its level. The number of samples below the true
    median is binomial, with one half for each."""
    if count > _EXACT:
        return math.floor((count - _Z * math.sqrt(count) - 1) / 2), LEVEL  # the normal, by one sample wider
    outside, left_out, level = 0, 0, 0.0
    for index in range((count + 1) // 2):
        outside += math.comb(count, index)
        held = 1.0 - 2.0 * outside / 2**count
        if index == 0 or held >= LEVEL:
            left_out, level = index, max(0.0, held)
    return left_out, level
