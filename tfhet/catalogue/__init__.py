"""Instance types with their CPUs, memory, GPUs and network, and prices with their source.

from tfhet import catalogue

known = catalogue.default()
known.instance("ml.g5.xlarge").vcpus                    # 4
known.price("c5.18xlarge", "us-east-1")                 # a Price, or None if it is unknown
known.common_market(["ml.g5.xlarge", "ml.c5.large"])
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
