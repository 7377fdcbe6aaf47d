"""Compiled ops for what plain TensorFlow does slowly: of the wheel, or built on first use, and never needed.

    from tfhet import native

    ops = native.ops("tone")  # None without a compiler, or with TFHET_NATIVE=off: then plain TensorFlow does the work
    negative = 255 - images if ops is None else ops.tfhet_solarize(images, threshold=0.0)

`names`, `permitted` and `built` need no TensorFlow: a launcher asks them which libraries its host has.
"""

from typing import TYPE_CHECKING

from tfhet import lazy
from tfhet.native.compiled import compiled
from tfhet.native.kernels import (
    SWITCH,
    WIRE,
    BuildError,
    built,
    compile_into,
    compiler,
    names,
    of_here,
    permitted,
    ready,
)

if TYPE_CHECKING:
    from tfhet.native.library import available, load_all, ops, shaped, wire_library

lazy.names_on_demand(__name__)
