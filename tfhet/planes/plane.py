"""The protocol of data planes, which move batches from the hosts that prepare them to the ranks.

A data plane is an object in the registry with two sides. The rank's side reads (reader.py). The launcher's side starts
and watches processes, and loads without TensorFlow:

    side = planes.get("tf_service").launcher_side(settings, place, outlets)
    await side.serve()      # on every host; ends by raising, or by being cancelled
    side.missing()          # in the leader: None once all is ready
    side.order()            # in the leader: the addresses for readers, in the message "start"

`DataPlane` and `LauncherSide` are a plane without processes; other planes override their methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfhet import schema
from tfhet.arguments import NoArguments
from tfhet.cluster import Place, PortRange, Role, Roles
from tfhet.events import Observer
from tfhet.messages import RestartLine, link, rank
from tfhet.telemetry import Metric

if TYPE_CHECKING:
    from tfhet.planes.costs import CostFile, PlaneCosts
    from tfhet.planes.feed.batch_reader import BatchReader
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
    """Sends a message to the script of this launcher's rank, now or when it starts; dropped if there is no rank."""
    ready_timeout_s: float
    """Seconds that all processes of the job may take to become ready."""
    key: bytes = field(repr=False)
    """Key of the job's data plane, 32 bytes, derived from the job's secret."""
    script: str = ""
    """Path of the training script; "" for the built-in trainer."""

    def report_restart(self, host: str, process: str, code: int, cause: str) -> None:
        """Writes and reports that a process has ended by itself and is started again."""
        self.say(f"{cause}; starting it again")
        self.say(str(RestartLine(process, code)))
        self.report(link.Restarted(host, process, code, cause))


class LauncherSide:
    """A data plane in a launcher; this one starts nothing."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Description for the log: names without spaces, and short values."""
        return {}

    async def serve(self) -> None:
        """Starts this host's processes and keeps them alive; returns at once if the host has none. Ends by raising
        UsageError for a port in use, NotReady, or JobFailed."""

    async def stop(self, grace_s: float) -> None:
        """Ends the processes, by SIGKILL after `grace_s` seconds."""

    def processes(self) -> Mapping[str, int]:
        """Ids of the running processes, by name."""
        return {}

    def metrics(self) -> Mapping[Metric, float]:
        """Values for the metrics endpoint of this launcher."""
        return {}

    def environment(self, order: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
        """Returns `env` with the variables of the plane's reader in the script: here, of the C library's allocator."""
        from tfhet.planes.process import with_malloc_tunables

        return with_malloc_tunables(env)

    async def beside(self, pid: int) -> None:
        """Runs from the start of this launcher's training process `pid` to its end."""

    def reads(self, endlessly: bool) -> None:
        """Called when the script begins to read a data set. endlessly: whether the data set has no end."""

    def gone(self, host: str) -> None:
        """Called in every launcher when the serving `host` is lost and the job continues without it."""

    # In the leader

    def on_report(self, facts: Mapping[str, Any]) -> None:
        """Handles a report of the plane in any launcher, including this one. Raises MessageError for a wrong one, which
        ends the job; UnknownKind is ignored, because the other launcher may be of a later version."""

    def use(self) -> Mapping[str, Mapping[str, float]]:
        """Quantities that the plane has used, by host and name, for the run record."""
        return {}

    def missing(self) -> str | None:
        """Describes what is not ready yet; None if everything is."""
        return None

    def order(self) -> Mapping[str, Any]:
        """Returns the order for readers as JSON values, once nothing is missing."""
        return {}

    def lost(self, host: str) -> bool:
        """Called when a serving host is lost. Returns whether the others deliver the rest; else the job has failed."""
        return True


class DataPlane:
    """A way to move batches from the hosts that prepare them to the ranks of a job."""

    name: str
    """Value of `--data_plane` that chooses this plane."""
    settings: type[Any] = NoArguments
    """Frozen dataclass of the plane's launcher arguments."""
    goes_local: bool = False
    """Whether the built-in trainer can prepare its own data when no host serves any more."""
    serves_functions: bool = False
    """Whether ranks can read the batches of a user's function (`batches`)."""
    sees_reads: bool = True
    """Whether the launcher learns of all uses of the serving hosts: if not, they may serve a script that reads nothing
    by tfhet."""
    kinds: Mapping[str, bool] = {}
    """Kinds of processes that faults can name, and whether the leader's host has the only one."""
    module: str | None = None
    """Python module that the processes run; if there are several kinds, the kind is one of the arguments."""
    packages: Sequence[str] = ()
    """Modules that every host needs, if some hosts serve."""
    orders: type[schema.Order] | None = None
    """Class of the order for readers."""

    def costs(self, file: CostFile | None = None) -> PlaneCosts:
        """Returns the cost of moving batches, from `file` or `CostFile.default()`."""
        from tfhet.planes.costs import PlaneCosts

        return PlaneCosts()

    def arguments(self, servers_on_data_hosts: int, servers_on_dnn_hosts: int) -> Mapping[str, int]:
        """Launcher arguments that start these numbers of servers on each host of the two groups."""
        return {}

    def serving(self, settings: Any, roles: Roles) -> tuple[str, ...]:
        """Returns the hosts that prepare batches. Raises ClusterError for hosts without work."""
        return ()

    def ports(self, settings: Any, role: Role) -> Mapping[str, PortRange]:
        """Ports of the processes on a host of this role, by a name of the plane."""
        return {}

    def host_facts(self, settings: Any, role: Role) -> Mapping[str, Any]:
        """Fields of the run record for each host of this role."""
        return {}

    def check(self, order: Mapping[str, Any]) -> None:
        """Raises ClusterError for an order that readers cannot use."""
        if self.orders is not None:
            self.orders.parse(order)

    def launcher_side(self, settings: Any, place: Place, outlets: Outlets) -> LauncherSide:
        return LauncherSide()

    def batches(self, source: FeedSource, job: JobContext, options: Mapping[str, Any]) -> BatchReader:
        """Returns the reader of a user's function, if the plane `serves_functions`. options: is_equal, ahead, allocate,
        make_limit_s and pipeline; see `Loader`."""
        raise NotImplementedError

    def opens_early(self, job: JobContext) -> bool:
        """Whether `batches` is called as soon as a script names a function, so that servers can import its module."""
        return False

    def rank_side(self) -> RankSide:
        """The plane in a rank; loads the modules for reading."""
        from tfhet.planes.reader import RankSide

        return RankSide()

    def kind_of(self, command: Sequence[str]) -> str | None:
        """Returns the kind of a process by its command line; None if it is not of this plane."""
        if self.module not in command:
            return None
        return next((kind for kind in self.kinds if kind in command or len(self.kinds) == 1), None)

    def is_noise(self, line: str, gpus: int = 0) -> bool:
        """Whether a screen can omit a line of the plane's processes or of a script that reads from them. gpus: number
        of GPUs of its host. Log files keep the line."""
        from tfhet.planes.tensorflow_noise import is_noise

        return is_noise(line, gpus)

    def is_of_others(self, line: str) -> bool:
        """Whether a script prints a line for another process, whose errors do not explain the end of the script."""
        return False
