"""The time that a step takes, by the times at which steps ended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def pace(steps_ms: Sequence[float]) -> float:
    """Milliseconds a step took: the slope of a line through the times at which steps ended, since batches of hosts that
    work alike come in bursts, and the last burst may be cut off."""
    ends = np.cumsum(np.asarray(steps_ms, np.float64))
    return float(np.polyfit(np.arange(ends.size), ends, 1)[0])
