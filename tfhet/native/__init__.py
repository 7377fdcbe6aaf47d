"""Compiled ops for what plain TensorFlow does slowly: of the wheel, or built on first use, and never needed.

    from tfhet import native

    ops = native.ops("tone")  # None without a compiler, or with TFHET_NATIVE=off: then plain TensorFlow does the work
    negative = 255 - images if ops is None else ops.tfhet_solarize(images, threshold=0.0)

`names`, `permitted` and `built` need no TensorFlow: a launcher asks them which libraries its host has.
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
