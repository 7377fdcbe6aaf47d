"""TensorFlow's compiled ops: the compiled core's chain, records and deliveries; of the wheel, or built on first use.

    from tfhet import native

    ops = native.ops("records")  # None without a compiler, or with TFHET_NATIVE=off: then TensorFlow reads records

`names`, `permitted` and `built` need no TensorFlow: a launcher asks them which libraries its host has.
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
