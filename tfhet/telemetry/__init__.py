"""What hosts and steps use: measured for the timeline of a run, shown to Prometheus and CloudWatch while it lasts.

A sampler records what the processes of a launcher use, and an endpoint answers Prometheus. Names of processes, and the
numbers that they report, come from the caller:

    sampler = Sampler.of(folder, "algo-1", "rank-0", processes, offset, print, leads_host=True, gpus=gpu_count(env))
    endpoint = Endpoint(lambda: {UP: 1.0, **training_metrics(totals, line)}, {"host": "algo-1"}, print)
    await asyncio.gather(sampler.run(), endpoint.run("10.0.0.1", 9400))

The timeline that it leaves is read by three modules: `timeline_summary` (tables), `chrome_trace` and `tensorboard`.

    >>> from tfhet.record import RunFolder
    >>> from tfhet.telemetry import timeline_summary
    >>> [rank.wait_pct for rank in timeline_summary.of_ranks(RunFolder("runs/a").timeline())]
    [3.1, 2.9]
"""

from __future__ import annotations

from tfhet.telemetry.endpoint import Endpoint
from tfhet.telemetry.gpus import gpu_count
from tfhet.telemetry.metric import METRICS, UP, Metric, emf_line, training_metrics
from tfhet.telemetry.sampler import Sampler

__all__ = ["METRICS", "UP", "Endpoint", "Metric", "Sampler", "emf_line", "gpu_count", "training_metrics"]
