"""What launchers tell each other over the link: followers report to the leader, and the leader gives orders.

    report = link.parse_report(body)                    # in the leader; raises MessageError
    client.send(link.to_json(link.RankResult(3, 0)))    # in a follower

What belongs to a data plane or a training strategy stands in a mapping that only that plane or strategy reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfhet.messages.grammar import Grammar, MessageError, check_amounts, check_code


@dataclass(frozen=True)
class PlaneReport:
    """What the data plane of one launcher reports to the data plane of the leader."""

    facts: Mapping[str, Any]
    """Only the plane reads them."""


@dataclass(frozen=True)
class Restarted:
    """A process of the data plane on `host` ended by itself and is started again."""

    host: str
    process: str
    code: int | None
    """Its exit code; negative for the signal that ended it."""
    cause: str


@dataclass(frozen=True)
class RankResult:
    """The script of a rank has ended."""

    rank: int
    code: int
    """Its exit code, 128 + N for signal N."""
    cause: str = ""
    """One line, and below it the last lines that the script printed."""

    def __post_init__(self) -> None:
        check_amounts(rank=self.rank)
        check_code(self.code)


@dataclass(frozen=True)
class Failed:
    """This launcher cannot go on."""

    code: int
    cause: str

    def __post_init__(self) -> None:
        check_code(self.code)


@dataclass(frozen=True)
class StopWish:
    """This launcher was asked to stop, and wants the whole job to."""

    code: int
    cause: str

    def __post_init__(self) -> None:
        check_code(self.code)


@dataclass(frozen=True)
class Start:
    """The order to start the ranks' scripts."""

    job_id: str
    """Unique name of the run, not empty."""
    plane: Mapping[str, Any] = field(default_factory=dict)
    """The data plane's order, for its readers in the ranks."""
    strategy: Mapping[str, Any] = field(default_factory=dict)
    """The training strategy's order: where the ranks meet."""

    def __post_init__(self) -> None:
        if not self.job_id:
            raise MessageError("job_id is empty")


@dataclass(frozen=True)
class Stop:
    """The order to ask the scripts to stop."""


Report = PlaneReport | Restarted | RankResult | Failed | StopWish
Order = Start | Stop

REPORTS = Grammar(
    {
        "plane": PlaneReport,
        "restarted": Restarted,
        "result": RankResult,
        "failed": Failed,
        "stop": StopWish,
    }
)
ORDERS = Grammar({"start": Start, "stop": Stop})


def to_json(message: Report | Order) -> dict[str, Any]:
    """The body of a message of the link."""
    return (ORDERS if isinstance(message, (Start, Stop)) else REPORTS).to_json(message)


def parse_report(values: object) -> Report:
    """A follower's report. Raises MessageError (UnknownKind where only the kind is new)."""
    report: Report = REPORTS.parse(values)
    return report


def parse_order(values: object) -> Order:
    """The leader's order. Raises MessageError (UnknownKind where only the kind is new)."""
    order: Order = ORDERS.parse(values)
    return order
