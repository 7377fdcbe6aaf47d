"""Metrics of tf.data service on one host, for the metrics endpoint of its launcher."""

from __future__ import annotations

from tfhet.telemetry import Metric

WORKERS = Metric("tfhet_workers", "gauge", "Data service workers of this host that run.")
REGISTERED = Metric(
    "tfhet_workers_registered", "gauge", "Workers that the dispatcher knows; where the dispatcher runs."
)
RESTARTS = Metric("tfhet_restarts_total", "counter", "Restarts of a process of the data service on this host.")
SERVICE_METRICS = (WORKERS, REGISTERED, RESTARTS)
