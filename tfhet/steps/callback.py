"""A Keras callback that says where the steps of `model.fit` end, and their loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfhet.steps.script_steps import ScriptSteps


class StepCallback(tf.keras.callbacks.Callback):
    """Ends a step after each batch of `model.fit`, as `tfhet.step()` does in a loop of one's own. Optional. With it,
    metric lines have the loss, and what `fit` does between epochs is part of no step."""

    _supports_tf_logs = True  # the loss stays on the device until a metric line is due

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if steps := ScriptSteps.here():
            steps.end_step((logs or {}).get("loss"))
