"""The compute-time harness, and the suites that users run on their own machine and pipeline.

from tfhet.bench import Case, measure

taken = measure([Case("sum", lambda _: sum(range(100_000))), Case("max", lambda _: max(range(100_000)))])
print(taken["sum"].cheaper_than(taken["max"], against="max"))
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
