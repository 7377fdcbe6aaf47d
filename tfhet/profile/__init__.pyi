from .anatomy import Anatomy as Anatomy, anatomy_of as anatomy_of
from .effort import Effort as Effort
from .handed_over import measure_target as measure_target
from .native import is_measured_natively as is_measured_natively, measure_native as measure_native
from .parts import (
    PipelinePart as PipelinePart,
    parts_of_dataset as parts_of_dataset,
    parts_of_pipeline as parts_of_pipeline,
)
from .pipelines import load as load
from .result import NATIVE as NATIVE, PYTHON as PYTHON, RAY as RAY, Cost as Cost, Profile as Profile, Stored as Stored
from .rounds import measure as measure
from .script import measure_script as measure_script
from .stored import measure_stored as measure_stored
from .target import makes_ray as makes_ray
