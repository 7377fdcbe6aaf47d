"""tfhet keeps GPUs from waiting for their input.

    import tfhet

    ds = tfhet.distribute(ds)      # a plain data set without a data group; a served one with it

Names are loaded when they are first used: `import tfhet` loads neither TensorFlow nor Horovod.
"""

from typing import TYPE_CHECKING

from tfhet import lazy

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tfhet import stages, torch
    from tfhet.errors import TfhetError, UsageError
    from tfhet.placement import Cut, Pipeline
    from tfhet.planes import batches, distribute
    from tfhet.record import Figure, Record, RunFolder, RunSummary
    from tfhet.source import SyntheticSource, TFRecordSource
    from tfhet.stages import ImageSpec, Stage
    from tfhet.steps import StepCallback, step
    from tfhet.strategies import JobContext

lazy.names_on_demand(__name__)

# fmt: off
__all__ = [
    "Cut", "Figure", "ImageSpec", "JobContext", "Pipeline", "Record", "RunFolder", "RunSummary", "Stage",
    "StepCallback", "SyntheticSource", "TFRecordSource", "TfhetError", "UsageError", "batches", "distribute", "stages",
    "step", "torch",
]
