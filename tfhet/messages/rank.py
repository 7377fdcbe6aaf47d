"""What a launcher and the script of its rank tell each other over the channel between them.

channel.send(rank.to_json(rank.Progress(steps=7)))      # in the script
message = rank.parse_report(values)                     # in the launcher; raises MessageError
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tfhet.messages.grammar import ANY_FLOAT, Grammar, check_amounts
from tfhet.messages.metric_line import MetricLine


@dataclass(frozen=True)
class Progress:
    """The script goes on. Totals since it began, all of its steps included; None where it does not count them."""

    steps: int | None = None
    examples: float | None = None
    """Of all ranks."""
    step_s: float | None = None
    """Seconds of all steps."""
    wait_s: float | None = None
    """Part of `step_s` spent waiting for data."""

    def __post_init__(self) -> None:
        check_amounts(**vars(self))


@dataclass(frozen=True)
class Reading:
    """The script reads a data set."""

    endless: bool
    """Whether the data set repeats for ever, so that a worker that is lost for good does not keep it from ending."""


@dataclass(frozen=True)
class Metrics:
    """The numbers of a metric line, which rank 0 has just printed."""

    step: int
    epoch: int
    step_ms: float
    examples_per_s: float
    wait_pct: float
    loss: float | None = field(default=None, metadata=ANY_FLOAT)

    def __post_init__(self) -> None:
        check_amounts(step=self.step, epoch=self.epoch, step_ms=self.step_ms, examples_per_s=self.examples_per_s)
        check_amounts(wait_pct=self.wait_pct)

    @classmethod
    def of(cls, line: MetricLine) -> Metrics:
        """The same numbers."""
        return cls(**vars(line))

    def line(self) -> MetricLine:
        """The same numbers."""
        return MetricLine(**vars(self))


@dataclass(frozen=True)
class ServingHosts:
    """Which hosts deliver data to the ranks from now on."""

    hosts: tuple[str, ...]
    is_complete: bool = True
    """Whether these hosts are ready: whether the data plane has heard of all of their workers."""


Report = Progress | Reading | Metrics
Order = ServingHosts

REPORTS = Grammar({"progress": Progress, "reading": Reading, "metrics": Metrics})
ORDERS = Grammar({"serving_hosts": ServingHosts})


def to_json(message: Report | Order) -> dict[str, Any]:
    """The values that go over the channel."""
    return (ORDERS if isinstance(message, ServingHosts) else REPORTS).to_json(message)


def parse_report(values: object) -> Report:
    """What a script tells its launcher. Raises MessageError."""
    report: Report = REPORTS.parse(values)
    return report


def parse_order(values: object) -> Order:
    """What a launcher tells its script. Raises MessageError."""
    order: Order = ORDERS.parse(values)
    return order
