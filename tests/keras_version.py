"""Which Keras the tests run with."""

from __future__ import annotations

import pytest

from tfhet.strategies.tensorflow.keras_fit import is_keras_3
from tfhet.versions import versions

IS_KERAS_3 = is_keras_3(versions(("keras",)), {})
keras_2 = pytest.mark.skipif(
    IS_KERAS_3, reason="fit of Keras 3 does not work with this strategy: scripts/test --classic has Keras 2"
)
