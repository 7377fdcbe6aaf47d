"""What workers and ranks cannot share, and what to do instead."""

from __future__ import annotations

import tensorflow as tf

from tfhet.datasets import tf_internals
from tfhet.errors import UsageError

RECIPE = (
    "split with tfhet.split, or split the files or by a key of the example (filter) before reading; for a few batches "
    "to look at, call it on the result of tfhet.distribute"
)

_RECIPES = {
    "load": "read TFRecord files (tf.io.TFRecordWriter, or tfhet convert for images) instead of Dataset.save and load",
    "snapshot": "omit it: data hosts prepare the data in each pass",
    "CsvDataset": "read the files by TextLineDataset and tf.io.decode_csv, or by tf.data.experimental.make_csv_dataset",
    "SqlDataset": "write the rows to TFRecord files",
    "choose_from_datasets": (
        "only sample_from_datasets with stop_on_empty_dataset=False, or with endless data sets, means the same there; "
        "call tfhet.distribute for each data set, and choose among the results"
    ),
    "unique": "remove repeated examples when the files are written",
    "scan": "apply it to the result of tfhet.distribute",
    "take_while": "use filter, or apply it to the result of tfhet.distribute",
}

ENDLESS = "its data are endless: apply repeat() after it (rejection_resample: use sample_from_datasets)"


def refusal(data: tf.data.Dataset, reason: Exception) -> UsageError:
    name = tf_internals.name_of(data)
    if (recipe := _RECIPES.get(name)) is not None:
        return UsageError(f"the data set has {name}, which workers cannot share: {recipe}")
    return UsageError(
        f"the data set has {name}, which depends on the order of the elements, and workers share these: {reason}; "
        f"{RECIPE}"
    )
