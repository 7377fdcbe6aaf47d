from . import lowering as lowering, settings as settings, stream as stream
from .lowering import (
    local_part as local_part,
    one_by_one as one_by_one,
    one_epoch as one_epoch,
    preparation as preparation,
    remote_part as remote_part,
    without_autotune as without_autotune,
)
from .native import (
    BatchMaker as BatchMaker,
    MadeBatch as MadeBatch,
    as_json as as_json,
    differences as differences,
    element_spec as element_spec,
    from_json as from_json,
    is_native as is_native,
    runs_natively as runs_natively,
)
from .order import EpochOrder as EpochOrder
from .pipeline import (
    EPOCH as EPOCH,
    ID as ID,
    IMAGE as IMAGE,
    LABEL as LABEL,
    Cut as Cut,
    Pipeline as Pipeline,
    bytes_per_example as bytes_per_example,
    label_spec as label_spec,
    relabelled as relabelled,
)
from .reading import Rest as Rest
