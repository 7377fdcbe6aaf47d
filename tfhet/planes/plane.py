"""The door to data planes: how batches come from the hosts that prepare them to the ranks.

A data plane is one object in the registry, with two sides. The rank's side reads (reader.py). The launcher's side
starts and watches processes, and loads in a moment, without TensorFlow:

    side = planes.get("tf_service").launcher_side(settings, place, outlets)
    await side.serve()      # on every host; ends by raising, or by being cancelled
    side.missing()          # in the leader: None once all is ready
    side.order()            # in the leader: what readers need, in the message "start"

`DataPlane` and `LauncherSide` are those of a plane without processes; another plane overrides what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfhet.arguments import NoArguments
from tfhet.cluster import Place, PortRange, Role, Roles
from tfhet.events import Observer
from tfhet.messages import link, rank
from tfhet.planes.costs import CostFile, PlaneCosts
from tfhet.planes.malloc import with_malloc_tunables
from tfhet.planes.tensorflow_noise import is_noise
from tfhet.telemetry import Metric

if TYPE_CHECKING:
    from tfhet.planes.feed.delivered import BatchReader
    from tfhet.planes.feed.source import FeedSource
    from tfhet.planes.reader import RankSide
    from tfhet.strategies import JobContext


@dataclass(frozen=True)
class Outlets:
    """The parts of a launcher that a plane's launcher side may use."""

    say: Callable[[str], None]
    """Writes one line to the log."""
    report: Callable[[link.Report], None]
    """Sends a report to the leader: a `link.PlaneReport` reaches `LauncherSide.on_report` there."""
    observe: Observer
    tell_script: Callable[[rank.Order], None]
    """Sends a message to the script of this launcher's rank, now or when it starts; dropped where there is none."""
    ready_timeout_s: float
    """Seconds that all processes of the job may take to become ready."""
    key: bytes = field(repr=False)
    """Key of the job's data plane, 32 bytes, made from the job's secret."""


class LauncherSide:
    """A data plane in one launcher; this one starts nothing."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Description for the log: names without spaces, and short values."""
        return {}

    async def serve(self) -> None:
        """Starts this host's processes and keeps them alive; returns at once where the host has none. Ends by raising
        UsageError for a port in use, NotReady, or JobFailed."""

    async def stop(self, grace_s: float) -> None:
        """Ends them, by SIGKILL after `grace_s` seconds."""

    def processes(self) -> Mapping[str, int]:
        """Ids of the processes that run, by name."""
        return {}

    def metrics(self) -> Mapping[Metric, float]:
        """Values for the metrics endpoint of this launcher."""
        return {}

    def environment(self, order: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
        """`env` with the variables that the plane's reader needs in the script: here, those of the C library's
        allocator."""
        return with_malloc_tunables(env)

    async def beside(self, pid: int) -> None:
        """Runs from the start of this launcher's training process `pid` to its end."""

    def reads(self, endlessly: bool) -> None:
        """Called when the script begins to read a data set. endlessly: whether that has no end."""

    def gone(self, host: str) -> None:
        """Called in every launcher when `host`, which served, is lost and the job goes on without it."""

    # In the leader

    def on_report(self, facts: Mapping[str, Any]) -> None:
        """Takes a report of the plane in any launcher, this one included. Raises MessageError for one that is wrong,
        which ends the job; UnknownKind is ignored: the other launcher may be of a later version."""

    def use(self) -> Mapping[str, Mapping[str, float]]:
        """Quantities that the plane has used, by host and name, for the run record."""
        return {}

    def missing(self) -> str | None:
        """Describes what is not ready yet; None once all is."""
        return None

    def order(self) -> Mapping[str, Any]:
        """Returns what readers need, as JSON values, once nothing is missing."""
        return {}

    def lost(self, host: str) -> bool:
        """Called when `host`, which served, is lost. Returns whether the other hosts deliver what is left; the job has
        failed otherwise. Raises nothing."""
        return True


class DataPlane:
    """A way for batches to come from the hosts that prepare them to the ranks of a job."""

    name: str
    """Value of `--data_plane` that chooses this plane."""
    settings: type[Any] = NoArguments
    """Frozen dataclass of the launcher arguments that are this plane's own."""
    goes_local: bool = False
    """Whether the built-in trainer can prepare its own data once no host serves any more."""
    serves_functions: bool = False
    """Whether ranks read by it what a function of the user's gives (`batches`)."""
    kinds: Mapping[str, bool] = {}
    """Kinds of processes that faults can name, and whether the leader's host has the only one."""

    def costs(self, file: CostFile | None = None) -> PlaneCosts:
        """Returns the cost of moving batches, from `file` or `CostFile.default()`."""
        return PlaneCosts()

    def arguments(self, servers_on_data_hosts: int, servers_on_dnn_hosts: int) -> Mapping[str, int]:
        """Launcher arguments that start these numbers of servers on each host of the two groups."""
        return {}

    def serving(self, settings: Any, roles: Roles) -> tuple[str, ...]:
        """Names of the hosts that prepare batches. Raises ClusterError for hosts that would do nothing."""
        return ()

    def ports(self, settings: Any, role: Role) -> Mapping[str, PortRange]:
        """The ports that the processes on a host of this role listen on, by a name of the plane's."""
        return {}

    def host_facts(self, settings: Any, role: Role) -> Mapping[str, Any]:
        """Fields of the run record for each host of this role."""
        return {}

    def check(self, order: Mapping[str, Any]) -> None:
        """Raises ClusterError for an order that readers could not follow."""

    def launcher_side(self, settings: Any, place: Place, outlets: Outlets) -> LauncherSide:
        return LauncherSide()

    def batches(self, source: FeedSource, job: JobContext, options: Mapping[str, Any]) -> BatchReader:
        """The reader of what a function of the user's gives, where the plane `serves_functions`. options: is_equal,
        ahead, allocate, make_limit_s; see `tfhet.batches`."""
        raise NotImplementedError

    def rank_side(self) -> RankSide:
        """The plane in a rank; loads what reading needs."""
        from tfhet.planes.reader import RankSide

        return RankSide()

    def kind_of(self, command: Sequence[str]) -> str | None:
        """Which of `kinds` a command line is of; None where it is no process of this plane."""
        return None

    def is_noise(self, line: str, gpus: int = 0) -> bool:
        """Whether a screen can omit a line that a process of the plane, or a script that reads from it, prints. gpus:
        number of GPUs of its host. Log files hold such lines too. Here, the noise of TensorFlow."""
        return is_noise(line, gpus)
