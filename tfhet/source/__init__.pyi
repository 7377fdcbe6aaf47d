from . import digits as digits, photos as photos
from .array_spec import ArraySpec as ArraySpec
from .damage import (
    RECORD_ERRORS as RECORD_ERRORS,
    Prepare as Prepare,
    diagnose as diagnose,
    error_text as error_text,
    find as find,
)
from .described import SOURCES as SOURCES, source_as_json as source_as_json, source_from_json as source_from_json
from .encoding import write_record as write_record
from .feature import Encoded as Encoded, Feature as Feature, Fixed as Fixed, Raw as Raw, Scalar as Scalar
from .folder import from_image_folder as from_image_folder
from .id_set import IdCount as IdCount, IdSet as IdSet
from .image_folder import FileList as FileList, ImageFolder as ImageFolder
from .index_writing import write_record_indexes as write_record_indexes, write_tar_indexes as write_tar_indexes
from .map_style import ArraySource as ArraySource, MapStyle as MapStyle
from .mixed import Balanced as Balanced, Mixed as Mixed
from .parquet import ParquetSource as ParquetSource
from .source import (
    BadRecord as BadRecord,
    BlockSource as BlockSource,
    IndexedSource as IndexedSource,
    SeekingSource as SeekingSource,
    Source as Source,
    example_id as example_id,
    ids_at as ids_at,
    position_of as position_of,
    split_of as split_of,
)
from .splitmix import GAMMA as GAMMA, mix as mix
from .storing import Store as Store
from .synthetic import SyntheticSource as SyntheticSource
from .tar import tar_samples as tar_samples
from .tar_source import TarSource as TarSource
from .tfrecord import TFRecordSource as TFRecordSource
from .writing import Sidecar as Sidecar, write_tfrecords as write_tfrecords
