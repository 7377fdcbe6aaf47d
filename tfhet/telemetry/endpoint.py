"""The metrics endpoint of a launcher, which answers `GET /metrics` for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tfhet.cluster import busy
from tfhet.coroutines import in_thread
from tfhet.telemetry.metric import Metric

READ_S = 5.0
"""Maximum wait of a request for the launcher's event loop."""


async def serve_metrics(
    host: str,
    port: int,
    values: Callable[[], Mapping[Metric, float]],
    labels: Mapping[str, str],
    say: Callable[[str], None],
) -> None:
    """Serves the values of one launcher until it is cancelled. Returns early, with a line for the log, if the port
    cannot be used.

    Args:
        host: Address at which it listens.
        port: Port; 0: a free port.
        values: Called on the running event loop, once per request.
        labels: Labels of all values.
        say: Receives lines for the log.
    """
    # Imported when needed: prometheus_client takes as long to import as the rest of a launcher.
    from tfhet.telemetry.metrics_server import MetricsServer

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
