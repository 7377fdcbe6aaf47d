"""Metrics of a launcher for Prometheus, to which its data plane adds others, and metric lines for CloudWatch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tfhet.messages import UNITS, MetricLine


@dataclass(frozen=True)
class Metric:
    """Name and meaning of one number, as Prometheus shows them."""

    name: str
    """Name with its unit; the name of a counter ends with `_total`."""
    kind: Literal["gauge", "counter"]
    """A `counter` only grows while the launcher lives; a `gauge` may fall."""
    help: str


UP = Metric("tfhet_up", "gauge", "1 while the host does its part: its script runs, or a process that serves data.")
STEPS = Metric("tfhet_steps_total", "counter", "Steps of this rank since its script began.")
EXAMPLES = Metric("tfhet_examples_total", "counter", "Examples of those steps, all ranks together.")
STEP_S = Metric("tfhet_step_seconds_total", "counter", "Seconds spent in those steps.")
WAIT_S = Metric("tfhet_wait_seconds_total", "counter", "Seconds of them spent waiting for data.")
EPOCH = Metric("tfhet_epoch", "gauge", "Epoch of the last metric line, from 0; on rank 0.")
LOSS = Metric("tfhet_loss", "gauge", "Mean loss over the epoch so far, from the last metric line; on rank 0.")
METRICS = (UP, STEPS, EXAMPLES, STEP_S, WAIT_S, EPOCH, LOSS)

_TOTALS = {"steps": STEPS, "examples": EXAMPLES, "step_s": STEP_S, "wait_s": WAIT_S}


def training_metrics(totals: Mapping[str, float], line: MetricLine | None) -> dict[Metric, float]:
    """The known metrics of a training script. totals: sums since the script began, with the names of
    `steps.Meter.totals`. line: the last metric line, or None."""
    values = {metric: totals[name] for name, metric in _TOTALS.items() if name in totals}
    if line is not None:
        values[EPOCH] = line.epoch
        if line.loss is not None:
            values[LOSS] = line.loss
    return values


def emf_line(namespace: str, dimensions: Mapping[str, str], line: MetricLine, at_s: float) -> str:
    """A metric line in CloudWatch's embedded metric format ("Embedded metric format", CloudWatch User Guide), without a
    loss that is not finite. dimensions: at most 30 values by name. at_s: seconds since 1970."""
    numbers = {name: value for name, value in line.numbers().items() if math.isfinite(value)}
    directive = {
        "Namespace": namespace,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": name, "Unit": UNITS[name]} for name in numbers],
    }
    content = {"_aws": {"Timestamp": round(1e3 * at_s), "CloudWatchMetrics": [directive]}, **dimensions, **numbers}
    return json.dumps(content, allow_nan=False)
