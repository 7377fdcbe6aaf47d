"""The declared pipeline, the cut between data group and trainer, and the lowering of both parts to tf.data."""

from tfhet.placement.cut import Cut, bytes_per_example
from tfhet.placement.declaration import PlacedStage
from tfhet.placement.lowering import local_part, one_by_one, one_epoch, preparation, remote_part, without_autotune
from tfhet.placement.pipeline import Pipeline
from tfhet.placement.rest import Rest

__all__ = [
    "Cut",
    "Pipeline",
    "PlacedStage",
    "Rest",
    "bytes_per_example",
    "local_part",
    "one_by_one",
    "one_epoch",
    "preparation",
    "remote_part",
    "without_autotune",
]
