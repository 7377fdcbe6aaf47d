"""Sources: where the records of a pipeline come from. Every example has an id from here on.

    from tfhet.source import SyntheticSource, TFRecordSource

    source = TFRecordSource.from_directory("/opt/ml/input/data/train")  # what `tfhet convert` wrote
    source = SyntheticSource(examples=10_000, splits=16)                # noise, for measurements

The modules `digits` and `photos` write demonstration data.
"""

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.source import digits, photos
    from tfhet.source.damage import RECORD_ERRORS, Prepare, diagnose, error_text, find
    from tfhet.source.feature import Encoded, Feature, Fixed, Raw, Scalar
    from tfhet.source.folder import from_image_folder
    from tfhet.source.id_set import IdCount, IdSet
    from tfhet.source.source import BadRecord, BlockSource, SeekingSource, Source, example_id, position_of, split_of
    from tfhet.source.synthetic import GAMMA, SyntheticSource, mix
    from tfhet.source.tar import tar_samples
    from tfhet.source.tfrecord import TFRecordSource
    from tfhet.source.writing import Sidecar, write_tfrecords

lazy.names_on_demand(__name__)

# fmt: off
__all__ = [
    "GAMMA", "RECORD_ERRORS", "BadRecord", "BlockSource", "Encoded", "Feature", "Fixed", "IdCount", "IdSet", "Prepare",
    "Raw", "Scalar", "SeekingSource", "Sidecar", "Source", "SyntheticSource", "TFRecordSource", "diagnose", "digits",
    "error_text", "example_id", "find", "from_image_folder", "mix", "photos", "position_of", "split_of", "tar_samples",
    "write_tfrecords",
]
