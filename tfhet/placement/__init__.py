"""Where a stage runs: the declared pipeline, the cut, and the lowering to tf.data (the only file that does it)."""

from tfhet.placement.cut import Cut, bytes_per_example
from tfhet.placement.lowering import endless, local_part, one_epoch, remote_part
from tfhet.placement.pipeline import PlacedStage, Pipeline

__all__ = [
    "Cut",
    "Pipeline",
    "PlacedStage",
    "bytes_per_example",
    "endless",
    "local_part",
    "one_epoch",
    "remote_part",
]
