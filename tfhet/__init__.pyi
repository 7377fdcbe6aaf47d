__version__: str

from . import horovod as horovod, stages as stages, torch as torch
from .errors import TfhetError as TfhetError, UsageError as UsageError
from .pipeline import Cut as Cut, Pipeline as Pipeline
from .planes import batches as batches, distribute as distribute
from .record import Figure as Figure, Record as Record, RunFolder as RunFolder, RunSummary as RunSummary
from .source import (
    ArraySource as ArraySource,
    Balanced as Balanced,
    FileList as FileList,
    ImageFolder as ImageFolder,
    MapStyle as MapStyle,
    Mixed as Mixed,
    ParquetSource as ParquetSource,
    SyntheticSource as SyntheticSource,
    TarSource as TarSource,
    TFRecordSource as TFRecordSource,
)
from .splitting import split as split
from .stages import ImageSpec as ImageSpec, Stage as Stage
from .steps import MetricAverageCallback as MetricAverageCallback, StepCallback as StepCallback, step as step
from .strategies import JobContext as JobContext
from .watching import Watch as Watch, watch as watch
