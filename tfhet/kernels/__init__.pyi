from .chain import Chain as Chain, Draws as Draws, Parameter as Parameter
from .contents import Contents as Contents
from .files import (
    file_wait_us as file_wait_us,
    parse_examples as parse_examples,
    read_files as read_files,
    record_offsets as record_offsets,
)
from .loader import available as available, is_ready as is_ready, library as library
from .storing import is_stored as is_stored, store_image as store_image
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
