"""Usage of hosts and steps: recorded in the timeline of a run, and exported to Prometheus and CloudWatch.

>>> from tfhet.record import RunFolder
>>> from tfhet.telemetry import rank_summaries
>>> [rank.wait_pct for rank in rank_summaries(RunFolder("runs/a").timeline())]
[3.1, 2.9]
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
