from .kernels import (
    SWITCH as SWITCH,
    WIRE as WIRE,
    BuildError as BuildError,
    built as built,
    compile_into as compile_into,
    compiled as compiled,
    compiler as compiler,
    names as names,
    of_here as of_here,
    permitted as permitted,
    ready as ready,
)
from .library import (
    available as available,
    load_all as load_all,
    ops as ops,
    shaped as shaped,
    wire_library as wire_library,
)
