from .chain import Chain as Chain, Draws as Draws, Parameter as Parameter
from .loader import available as available, is_ready as is_ready, library as library
from .toolchain import (
    BUILD_LIMIT_S as BUILD_LIMIT_S,
    FLAGS as FLAGS,
    LEVELS as LEVELS,
    BuildError as BuildError,
    compile_into as compile_into,
    compiled as compiled,
    compiler as compiler,
    cpu as cpu,
    locked as locked,
)
