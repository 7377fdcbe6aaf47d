"""The compiled dilation and erosion against windows laid out by numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tfhet import native

pytestmark = pytest.mark.skipif(not native.available("morphology"), reason="compiled ops cannot be built here")

SHAPES = [(3, 32, 32, 3), (3, 17, 9, 1), (1, 1, 1, 3), (2, 1, 40, 1), (3, 3, 2, 4), (2, 60, 1, 3), (1, 30, 90, 2)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 31])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("largest", [True, False])
def test_pixel_becomes_the_extreme_of_its_square(size, dtype, largest):
    around = ((size - 1) // 2, size // 2)
    for shape in SHAPES:
        values = np.random.default_rng(1).integers(0, 256, shape).astype(dtype)
        outside = -np.inf if largest else np.inf
        padded = np.pad(np.float32(values), ((0, 0), around, around, (0, 0)), constant_values=outside)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (1, 2))
        expected = windows.max((-2, -1)) if largest else windows.min((-2, -1))
        ours = native.ops("morphology").tfhet_morphology(values, size=size, largest=largest)
        assert ours.dtype == values.dtype
        np.testing.assert_array_equal(ours, expected)
