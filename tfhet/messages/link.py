"""The messages between launchers, over the link: followers report to the leader, and the leader gives orders.

Only the data plane or training strategy reads what stands in a mapping of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfhet.messages.grammar import Code, Count, Grammar, Text


@dataclass(frozen=True)
class PlaneReport:
    """A report of one launcher's data plane to the leader's."""

    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Restarted:
    """A process of the data plane on `host` ended by itself and is started again."""

    host: str
    process: str
    code: Code | None
    """Its exit code; negative for the signal that ended it."""
    cause: str


@dataclass(frozen=True)
class RankResult:
    """The script of a rank has ended."""

    rank: Count
    code: Code
    """Its exit code, 128 + N for signal N."""
    cause: str = ""
    """One line, and below it the last lines that the script printed."""


@dataclass(frozen=True)
class ScriptReport:
    """A report of a rank's script about its steps and its data."""

    rank: Count
    facts: Mapping[str, Any]
    """A `rank.Standing` or `rank.Delivered`, as JSON values."""


@dataclass(frozen=True)
class Failed:
    """This launcher cannot go on."""

    code: Code
    cause: str

    @classmethod
    def wrongly(cls, member: str, odd: str) -> Failed:
        """Replaces a report that is wrong: the leader does not wait for a launcher that sends such."""
        return cls(1, f"{member} sent a report that is wrong: {odd}")


@dataclass(frozen=True)
class StopWish:
    """This launcher was asked to stop, and wants the whole job to."""

    code: Code
    cause: str


@dataclass(frozen=True)
class Start:
    """The order to start the ranks' scripts."""

    job_id: Text
    """Unique name of the run."""
    plane: Mapping[str, Any] = field(default_factory=dict)
    """The data plane's order, for its readers in the ranks."""
    strategy: Mapping[str, Any] = field(default_factory=dict)
    """The training strategy's order: where the ranks meet."""


@dataclass(frozen=True)
class Stop:
    """The order to ask the scripts to stop."""


@dataclass(frozen=True)
class HostLost:
    """The job goes on without a host that served data."""

    host: Text


@dataclass(frozen=True)
class Confirm:
    """The order to confirm that this launcher has not lost its lease: the link does, by receiving it."""


Report = PlaneReport | Restarted | ScriptReport | RankResult | Failed | StopWish
Order = Start | Stop | HostLost | Confirm

REPORTS: Grammar[Report] = Grammar(
    {"plane": PlaneReport, "restarted": Restarted, "script": ScriptReport, "result": RankResult}
    | {"failed": Failed, "stop": StopWish}
)
ORDERS: Grammar[Order] = Grammar({"start": Start, "stop": Stop, "host_lost": HostLost, "confirm": Confirm})
parse_report, parse_order = REPORTS.parse, ORDERS.parse


def to_json(message: Report | Order) -> dict[str, Any]:
    """The body of a message of the link."""
    return ORDERS.to_json(message) if isinstance(message, Order) else REPORTS.to_json(message)
