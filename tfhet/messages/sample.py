"""The text form of a sample of weights in `rank.Weights`."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from tfhet.schema import MessageError

if TYPE_CHECKING:
    import numpy as np


def packed(values: np.ndarray) -> str:
    """float32 [tensors, elements] as text."""
    return f"{len(values)}:{base64.b64encode(values.astype('<f4').tobytes()).decode('ascii')}"


def unpacked(text: str) -> np.ndarray:
    """Returns the elements, float32 [tensors, elements], at least one. Raises MessageError for another text."""
    import numpy as np  # launchers start without it

    count, _, content = text.partition(":")
    try:
        found = np.frombuffer(base64.b64decode(content, validate=True), "<f4").reshape(int(count), -1)
    except (ValueError, OverflowError, binascii.Error) as error:
        raise MessageError(f"weights: elements that are none: {error}") from error
    if not found.size:
        raise MessageError("weights: no elements")
    return found
