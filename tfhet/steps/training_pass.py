"""The passes of a script over its training data, and the hooks of the frameworks that train in them."""

from __future__ import annotations

import sys
from typing import Any

from tfhet.messages import ProcessChannel
from tfhet.steps.weights import WeightChecks
from tfhet.strategies import JobContext


class TrainingPasses:
    """Installs, when a pass begins, the hooks of the frameworks that the script has imported: tfhet imports none."""

    def __init__(self, job: JobContext, channel: ProcessChannel):
        self._checks = WeightChecks(channel) if job.checks_weights else None
        self._installed: set[str] = set()

    def begin(self, dataset: Any = None) -> None:
        """Notes that a pass over training data begins. dataset: TensorFlow's, if the script reads one."""
        checks = self._checks
        if checks is None:
            return
        checks.begin_pass()
        if "torch.optim" in sys.modules and "torch" not in self._installed:
            from tfhet.steps import torch_weights

            self._installed.add("torch")
            torch_weights.install(checks)
        if dataset is None:
            return
        from tfhet.steps import keras_weights

        keras_weights.mark_training(dataset)
        for name in {"keras", "tf_keras"} & sys.modules.keys() - self._installed:
            if hasattr(sys.modules[name], "optimizers"):
                self._installed.add(name)
                keras_weights.install(checks, sys.modules[name])
