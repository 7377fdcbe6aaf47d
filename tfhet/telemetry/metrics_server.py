"""An HTTP server for metrics: prometheus_client's, which handles each connection in a daemon thread of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric as Family
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from tfhet.telemetry.metric import Metric

SILENCE_S = 5.0
"""A connection is closed once its client has sent nothing for this many seconds."""
POLL_S = 0.2
"""Interval at which the server looks for the request to end."""


class MetricsServer(ThreadingWSGIServer):
    """Answers `GET /metrics` from a thread of its own, from the beginning until `end`."""

    def __init__(self, host: str, port: int, values: Callable[[], Mapping[Metric, float]], labels: Mapping[str, str]):
        """Listens at `host`:`port` (0: a free port). Raises OSError or OverflowError where the port cannot be had.
        values: called once per request, on its connection's thread. labels: of all values."""
        self.address_family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
        super().__init__((host, port), _Handler)
        registry = CollectorRegistry()
        registry.register(_Values(values, labels))
        self.set_app(make_wsgi_app(registry))
        threading.Thread(target=self.serve_forever, args=(POLL_S,), name="tfhet-metrics", daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores what a client did."""

    def end(self) -> None:
        """Stops listening; returns within about `POLL_S`."""
        self.shutdown()
        self.server_close()


class _Values(Collector):
    """Reads the values whenever the registry is asked for them."""

    def __init__(self, values: Callable[[], Mapping[Metric, float]], labels: Mapping[str, str]):
        self._values, self._labels = values, labels

    def collect(self) -> Iterator[Family]:
        for metric, value in self._values().items():
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=list(self._labels))
            family.add_metric(list(self._labels.values()), value)
            yield family


class _Handler(WSGIRequestHandler):
    """Handles one request without a line in the launcher's log."""

    timeout = SILENCE_S

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""
