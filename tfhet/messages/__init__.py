"""All messages between the processes of a job, and the lines of its log that programs read.

No program reads any other text of another process: a sentence is for people, and its words may change at any time.
"""

from tfhet.messages import link, rank, sample, server
from tfhet.messages.channel import CHANNEL_VARIABLE, Channel, ProcessChannel, inherited
from tfhet.messages.log_line import (
    UNITS,
    ContainerFailureLine,
    EpochLine,
    FirstBatchLine,
    HostLine,
    JobResultLine,
    MetricLine,
    RestartLine,
    StepPartsLine,
    epoch_pattern,
    metric_pattern,
    parse_line,
)
