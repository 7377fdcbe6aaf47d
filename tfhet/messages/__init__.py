"""Everything that the processes of a job tell each other, and the readers of its log.

    channel.py      between a launcher and a process that it starts;  process_channel.py: the process's end
    rank.py         what goes over it to and from the script of a rank;  server.py: from a process of a data plane
    link.py         between launchers, over the link of the room `control`
    log_line.py     the lines of the log that programs read: run_line.py and metric_line.py say which there are

No program reads any other text of another process's: a sentence is for people, and may be worded anew at any time.
"""

from __future__ import annotations

from tfhet.messages import link, rank, server
from tfhet.messages.channel import CHANNEL_VARIABLE, Channel
from tfhet.messages.grammar import Grammar, MessageError, UnknownKind
from tfhet.messages.metric_line import UNITS, MetricLine, metric_pattern
from tfhet.messages.process_channel import ProcessChannel, inherited
from tfhet.messages.run_line import (
    ContainerFailureLine,
    EpochLine,
    FirstBatchLine,
    HostLine,
    JobResultLine,
    RestartLine,
    RunLine,
    StepPartsLine,
    epoch_pattern,
    parse_line,
)

__all__ = [
    "CHANNEL_VARIABLE",
    "UNITS",
    "Channel",
    "ContainerFailureLine",
    "EpochLine",
    "FirstBatchLine",
    "Grammar",
    "HostLine",
    "JobResultLine",
    "MessageError",
    "MetricLine",
    "ProcessChannel",
    "RestartLine",
    "RunLine",
    "StepPartsLine",
    "UnknownKind",
    "epoch_pattern",
    "inherited",
    "link",
    "metric_pattern",
    "parse_line",
    "rank",
    "server",
]
