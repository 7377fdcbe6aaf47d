"""An HTTP server for metrics: prometheus_client's, with limits on its connections.

No client can hold up the launcher or use up its memory: connections are few and short, and each is handled by a daemon
thread and carries one request.
"""

from __future__ import annotations

import contextlib
import io
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, cast
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from tfhet.clock import SYSTEM
from tfhet.telemetry.metric import Metric

CONNECTION_S = 5.0
"""Maximum duration of a connection; one that lasts longer is closed."""
CONNECTIONS = 16
"""Maximum number of connections at a time; further ones are closed at once."""
POLL_S = 0.2
"""Interval at which the server looks for connections that are too old, and for the request to end."""


class MetricsServer(ThreadingWSGIServer):
    """Answers `GET /metrics` from a thread of its own, from the beginning until `end`."""

    request_queue_size = CONNECTIONS

    def __init__(self, host: str, port: int, values: Callable[[], Mapping[Metric, float]], labels: Mapping[str, str]):
        """Listens at `host`:`port` (0: a free port). Raises OSError or OverflowError where the port cannot be had.

        values: returns the current values; it is called once per request, on the thread of the connection. labels:
        labels of all values.
        """
        self.address_family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
        self._ends_s: dict[socket.socket, float] = {}
        super().__init__((host, port), _Handler)
        registry = CollectorRegistry()
        registry.register(_Values(values, labels))
        self.set_app(make_wsgi_app(registry))
        threading.Thread(target=self.serve_forever, args=(POLL_S,), name="tfhet-metrics", daemon=True).start()

    def server_bind(self) -> None:
        # The library's own method looks up the full name of the host, which takes long where no name server answers.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = cast("tuple[str, int]", self.server_address[:2])
        self.setup_environ()

    @property
    def connections(self) -> int:
        """Number of connections that are open now."""
        return len(self._ends_s)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.connections >= CONNECTIONS:
            self.shutdown_request(request)
            return
        self._ends_s[request] = SYSTEM.monotonic() + CONNECTION_S
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Closes connections that are too old; `serve_forever` calls it at each poll."""
        now_s = SYSTEM.monotonic()
        for request, end_s in list(self._ends_s.items()):
            if end_s <= now_s:
                _interrupt(request)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self._ends_s.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores what a client did."""

    def end(self) -> None:
        """Stops listening and closes every connection; returns within about `POLL_S`."""
        self.shutdown()
        self.server_close()
        for request in list(self._ends_s):
            _interrupt(request)


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
    """Handles one request without a word in the launcher's log."""

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""

    def get_stderr(self) -> IO[str]:
        return io.StringIO()


def _interrupt(request: socket.socket) -> None:
    """Ends what a thread reads from or writes to a connection."""
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)
