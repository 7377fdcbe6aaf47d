"""The messages between launchers, over the link: followers report to the leader, and the leader gives orders.

Only the data plane or training strategy reads what stands in a mapping of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfhet.messages.rank import Gathered
from tfhet.schema import Code, Count, Message, Text


class PlaneReport(Message, frozen=True):
    """A report of one launcher's data plane to the leader's."""

    facts: Mapping[str, Any]


class Restarted(Message, frozen=True):
    """A process of the data plane on `host` ended by itself and is started again."""

    host: str
    process: str
    code: Code | None
    """Its exit code; negative for the signal that ended it."""
    cause: str


class RankResult(Message, frozen=True):
    """The script of a rank has ended."""

    rank: Count
    code: Code
    """Its exit code, 128 + N for signal N."""
    cause: str = ""
    """One line, and below it the last lines that the script printed."""


class ScriptReport(Message, frozen=True):
    """A report of a rank's script about its steps and its data."""

    rank: Count
    facts: Mapping[str, Any]
    """A `rank.LeaderReport`, as JSON values."""


class Failed(Message, frozen=True):
    """This launcher cannot go on."""

    code: Code
    cause: str


class StopWish(Message, frozen=True):
    """This launcher was asked to stop, and wants the whole job to."""

    code: Code
    cause: str


class Start(Message, frozen=True):
    """The order to start the ranks' scripts."""

    job_id: Text
    """Unique name of the run."""
    plane: Mapping[str, Any] = {}
    """The data plane's order, for its readers in the ranks."""
    strategy: Mapping[str, Any] = {}
    """The training strategy's order: where the ranks meet."""


class Stop(Message, frozen=True):
    """The order to ask the scripts to stop."""


class HostLost(Message, frozen=True):
    """The job goes on without a host that served data."""

    host: Text


class Confirm(Message, frozen=True):
    """The order to confirm that this launcher has not lost its lease: the link does, by receiving it."""


Report = PlaneReport | Restarted | ScriptReport | RankResult | Failed | StopWish
Order = Start | Stop | HostLost | Gathered | Confirm
