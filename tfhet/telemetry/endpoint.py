"""The metrics endpoint of a launcher, which answers `GET /metrics` for Prometheus.

A launcher imports this module only if it needs it: prometheus_client takes as long to import as the rest of a launcher.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric as Family
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from tfhet.cluster import busy
from tfhet.coroutines import in_thread
from tfhet.telemetry.metric import Metric

READ_S = 5.0
"""Maximum wait of a request for the launcher's event loop."""
SILENCE_S = 5.0
"""Seconds without data from its client after which a connection is closed."""
POLL_S = 0.2
"""Interval at which the server checks whether it should end."""


async def serve_metrics(
    host: str,
    port: int,
    values: Callable[[], Mapping[Metric, float]],
    labels: Mapping[str, str],
    say: Callable[[str], None],
) -> None:
    """Serves the values of one launcher at `host`:`port` (0: a free port) until it is cancelled. Returns early, with a
    line for the log, if the port cannot be used. values: called on the running event loop, once per request."""
    loop = asyncio.get_running_loop()

    async def current() -> Mapping[Metric, float]:
        return values()

    def read() -> Mapping[Metric, float]:
        # On the event loop, so that nothing changes during the call. Raises if the loop is blocked or closed.
        return asyncio.run_coroutine_threadsafe(current(), loop).result(READ_S)

    try:
        server = await in_thread(MetricsServer, host, port, read, labels)
    except (OSError, OverflowError) as error:
        say(f"no metrics at --metrics_port: {busy(port, host, error)}")
        return
    try:
        shown = f"[{host}]" if ":" in host else host
        say(f"metrics for Prometheus: http://{shown}:{server.server_port}/metrics")
        await loop.create_future()
    finally:
        await in_thread(server.end)


class MetricsServer(ThreadingWSGIServer):
    """Answers `GET /metrics` in its own thread until `end`."""

    def __init__(self, host: str, port: int, values: Callable[[], Mapping[Metric, float]], labels: Mapping[str, str]):
        """Listens at `host`:`port` (0: a free port). values: called once per request, in its connection's thread.
        labels: labels of all values. Raises OSError or OverflowError if the port cannot be used."""
        self.address_family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
        super().__init__((host, port), _Handler)
        registry = CollectorRegistry()
        registry.register(_Values(values, labels))
        self.set_app(make_wsgi_app(registry))
        threading.Thread(target=self.serve_forever, args=(POLL_S,), name="tfhet-metrics", daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of a client."""

    def end(self) -> None:
        """Stops listening; returns within about `POLL_S`."""
        self.shutdown()
        self.server_close()


class _Values(Collector):
    """Reads the values for each request."""

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
