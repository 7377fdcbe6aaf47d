"""Plain data sets of tf.data: their inspection, their order if it is known in advance, and their shares."""

from tfhet.extras import needed

with needed(__name__):
    import tensorflow  # first, for its error

from tfhet.datasets.inspect import Inspection, check_elements, inspect, with_inputs, without_last_assertion
from tfhet.datasets.shares import check_divisible, divisible, share_of, split_dataset

__all__ = [
    "Inspection",
    "check_divisible",
    "check_elements",
    "divisible",
    "inspect",
    "share_of",
    "split_dataset",
    "with_inputs",
    "without_last_assertion",
]
