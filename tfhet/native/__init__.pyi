from .kernels import (
    SWITCH as SWITCH,
    WIRE as WIRE,
    built as built,
    names as names,
    of_here as of_here,
    permitted as permitted,
    ready as ready,
)
from .library import (
    available as available,
    chain_ops as chain_ops,
    load_all as load_all,
    ops as ops,
    shaped as shaped,
    wire_library as wire_library,
)
