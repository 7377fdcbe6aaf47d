"""Keras callbacks: the ends and losses of the steps of `model.fit`, and metrics over the examples of all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfhet import strategies
from tfhet.cluster import environment
from tfhet.steps.finder import MAY_END
from tfhet.steps.script_steps import ScriptSteps
from tfhet.strategies import JobContext


class StepCallback(tf.keras.callbacks.Callback):
    """Optional, in `model.fit`: with it, metric lines have the loss, and the end of the last step of an epoch is
    exact. Its place among the callbacks does not matter."""

    _supports_tf_logs = True  # the loss stays on the device until a metric line is due

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if steps := ScriptSteps.here():
            steps.end_step((logs or {}).get("loss"), MAY_END)


class MetricAverageCallback(tf.keras.callbacks.Callback):
    """Replaces the metrics of a rank in the logs of `model.fit` by the metrics of all examples of all Horovod ranks.

    Horovod's callback of this name averages the ranks' results, which is wrong if a rank has more examples than
    another, and for metrics that are no means, like AUC. This one sums the metrics' variables, as Keras does under
    tf.distribute, so that each result is equal to that of one process. Put it before callbacks that read the logs. With
    one rank, and under strategies of TensorFlow, it changes nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.evaluated: dict[str, float] = {}
        """Metrics of the last evaluation, over all ranks: for `model.evaluate`, whose result is of this rank alone."""
        self._trained: dict[str, float] | None = None
        self._is_in_epoch = False
        job = JobContext.from_env(environment())
        self._is_needed = job.size > 1 and strategies.chosen(job.strategy, job.size).name == "horovod"

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._trained, self._is_in_epoch = None, True

    def on_test_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        if self._is_in_epoch and self._trained is None:  # the evaluation resets the metrics of the epoch
            self._trained = self._over_all_ranks()

    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self.evaluated = self._over_all_ranks()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        has_evaluated, self._is_in_epoch = self._trained is not None, False
        found = self._over_all_ranks() if self._trained is None else self._trained
        if has_evaluated:
            found = {**found, **{f"val_{name}": value for name, value in self.evaluated.items()}}
        logs = {} if logs is None else logs
        for name in sorted(logs):
            logs[name] = found[name] if name in found else self._mean(logs[name], name)

    def _over_all_ranks(self) -> dict[str, float]:
        """Returns the results of the metrics' variables, summed over the ranks; the variables keep their values."""
        if not self._is_needed:
            return self._results()
        import horovod.tensorflow as hvd

        variables = [each for metric in self.model.metrics for each in metric.variables]
        own = [tf.convert_to_tensor(each) for each in variables]
        for index, (each, value) in enumerate(zip(variables, own, strict=True)):
            is_mean = str(getattr(each, "aggregation", "")).lower().endswith("mean")
            op = hvd.Average if is_mean else hvd.Sum
            each.assign(hvd.allreduce(value, op=op, name=f"tfhet.metrics.{index}"))
        found = self._results()
        for each, value in zip(variables, own, strict=True):
            each.assign(value)
        return found

    def _results(self) -> dict[str, float]:
        return {name: float(value) for name, value in self.model.get_metrics_result().items()}

    def _mean(self, value: Any, name: str) -> Any:
        """Returns the ranks' mean of a value that is in the logs and of no metric."""
        if not self._is_needed:
            return value
        import horovod.tensorflow as hvd

        return float(hvd.allreduce(tf.constant(value, tf.float32), name=f"tfhet.logs.{name}"))
