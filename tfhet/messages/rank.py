"""The messages between a launcher and the script of its rank, over the channel between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tfhet.messages.grammar import Amount, Count, Grammar
from tfhet.messages.log_line import MetricLine


@dataclass(frozen=True)
class Progress:
    """The script makes progress. Totals since it began, over all of its steps; None where it does not count them."""

    steps: Count | None = None
    examples: Amount | None = None
    """Sum over all ranks."""
    step_s: Amount | None = None
    """Seconds of all steps."""
    wait_s: Amount | None = None
    """Part of `step_s` spent waiting for data."""
    wait_pct: Amount | None = None
    """Wait share of the measured steps, 0 to 100, with the last totals of a script (`record.step_time`)."""


@dataclass(frozen=True)
class Reading:
    """The script reads a data set."""

    endless: bool
    """Whether the data set repeats for ever, so that a worker that is lost for good does not keep it from ending."""


@dataclass(frozen=True)
class ServingHosts:
    """The hosts that deliver data to the ranks from now on."""

    hosts: tuple[str, ...]
    is_complete: bool = True
    """Whether these hosts are ready: whether the data plane has heard of all of their workers."""


Report = Progress | Reading | MetricLine
"""Metric lines that a script sends as messages are printed by its launcher."""
Order = ServingHosts

REPORTS: Grammar[Report] = Grammar({"progress": Progress, "reading": Reading, "metrics": MetricLine})
ORDERS: Grammar[Order] = Grammar({"serving_hosts": ServingHosts})
parse_report, parse_order = REPORTS.parse, ORDERS.parse


def to_json(message: Report | Order) -> dict[str, Any]:
    """The values that go over the channel."""
    return ORDERS.to_json(message) if isinstance(message, ServingHosts) else REPORTS.to_json(message)
