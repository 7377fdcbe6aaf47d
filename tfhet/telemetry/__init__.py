"""Usage of hosts and steps: recorded in the timeline of a run, and exported to Prometheus and CloudWatch.

A sampler records the usage of a launcher's processes, and an endpoint answers Prometheus. The caller supplies the names
of the processes and the numbers that they report:

    sampler = Sampler("algo-1", "rank-0", TimelineFile(path), processes, counters=host_counters())
    values = lambda: {UP: 1.0, **training_metrics(totals, line)}
    await asyncio.gather(sampler.run(), serve_metrics("10.0.0.1", 9400, values, {"host": "algo-1"}, print))

The timeline becomes tables (`timeline_tables`, of summaries), a Chrome trace or scalars for TensorBoard:

    >>> from tfhet.record import RunFolder
    >>> from tfhet.telemetry import rank_summaries
    >>> [rank.wait_pct for rank in rank_summaries(RunFolder("runs/a").timeline())]
    [3.1, 2.9]
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
