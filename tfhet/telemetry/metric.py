"""Metrics of a launcher: the named numbers that Prometheus reads, their endpoint, and metric lines for CloudWatch.

A launcher hands the endpoint a mapping from `Metric` to value. What it runs besides the training adds metrics of its
own to that mapping; this room knows none of them.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tfhet.cluster.address import busy
from tfhet.messages import UNITS, MetricLine

READ_S = 5.0
"""Maximum wait of a request for the launcher's event loop."""


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
    """Metrics of a training script, as far as they are known.

    totals: sums since the script began, with the names of `trainer.Meter.totals`. line: the last metric line; None
    before the first one, and on ranks that print none.
    """
    values = {metric: totals[name] for name, metric in _TOTALS.items() if name in totals}
    if line is not None:
        values[EPOCH] = line.epoch
        if line.loss is not None:
            values[LOSS] = line.loss
    return values


def emf_line(namespace: str, dimensions: Mapping[str, str], line: MetricLine, at_s: float) -> str:
    """A metric line in CloudWatch's embedded metric format (EMF): one JSON object, without a line break.

    Source: "Specification: Embedded metric format", Amazon CloudWatch User Guide.

    dimensions: values by name, at most 30, all in one set. at_s: seconds since 1970. A loss that is not finite is left
    out, because neither JSON nor CloudWatch can represent it.
    """
    numbers = {name: value for name, value in line.numbers().items() if math.isfinite(value)}
    directive = {
        "Namespace": namespace,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": name, "Unit": UNITS[name]} for name in numbers],
    }
    content = {"_aws": {"Timestamp": round(1e3 * at_s), "CloudWatchMetrics": [directive]}, **dimensions, **numbers}
    return json.dumps(content, allow_nan=False)


async def serve_metrics(
    host: str,
    port: int,
    values: Callable[[], Mapping[Metric, float]],
    labels: Mapping[str, str],
    say: Callable[[str], None],
) -> None:
    """Serves the values of one launcher at `host`:`port` (0: a free port) until it is cancelled.

    values: returns the current values; it is called on the launcher's event loop, once per request. labels: labels of
    all values. say: takes lines for the log. Returns early, with a line for the log, where the port cannot be had or
    prometheus_client is not installed: the job goes on without metrics.
    """
    try:
        # Imported when needed: prometheus_client takes as long to import as the rest of a launcher.
        from tfhet.telemetry.metrics_server import MetricsServer
    except ImportError as error:
        say(f"no metrics at --metrics_port: {error} (pip install prometheus_client)")
        return
    loop = asyncio.get_running_loop()

    async def current() -> Mapping[Metric, float]:
        return values()

    def read() -> Mapping[Metric, float]:
        # On the event loop, so that nothing changes while it is read. Raises where the loop is blocked or closed.
        return asyncio.run_coroutine_threadsafe(current(), loop).result(READ_S)

    try:
        server = await asyncio.to_thread(MetricsServer, host, port, read, labels)
    except (OSError, OverflowError) as error:
        say(f"no metrics at --metrics_port: {busy(port, host, error)}")
        return
    try:
        shown = f"[{host}]" if ":" in host else host
        say(f"metrics for Prometheus: http://{shown}:{server.server_port}/metrics")
        await loop.create_future()
    finally:
        await asyncio.to_thread(server.end)
