"""The declared pipeline, the cut between data group and trainer, and the lowering of both parts to tf.data."""

from tfhet.extras import needed

with needed(__name__):
    import tensorflow  # first, for its error

from tfhet.placement.declaration import Cut, bytes_per_example, label_spec
from tfhet.placement.inspect import Inspection, check_elements, inspect, with_inputs, without_last_assertion
from tfhet.placement.lowering import (
    local_part,
    one_by_one,
    one_epoch,
    preparation,
    remote_part,
    steps,
    without_autotune,
)
from tfhet.placement.pipeline import Pipeline
from tfhet.placement.reading import Rest
from tfhet.placement.shares import check_divisible, divisible, share_of, split_dataset

# fmt: off
__all__ = [
    "Cut", "Inspection", "Pipeline", "Rest", "bytes_per_example", "check_divisible", "check_elements", "divisible",
    "inspect", "label_spec", "local_part", "one_by_one", "one_epoch", "preparation", "remote_part", "share_of",
    "split_dataset", "steps", "without_autotune", "without_last_assertion", "with_inputs",
]
