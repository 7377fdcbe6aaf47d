"""The rest of an epoch: the examples that are still to be read after some have been seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfhet.source import IdSet


@dataclass(frozen=True, eq=False)
class Rest:
    """Splits that are still to be read, and the examples in them that have been seen."""

    splits: np.ndarray
    """bool [splits of the source]: whether a split is still to be read."""
    seen: IdSet
    """Ids in those splits that are not read again."""
