"""The door to data planes: how batches come from the hosts that prepare them to the ranks.

A data plane is one object in the registry, and one folder of this room. It has two sides. The launcher's side starts
and watches processes; it loads in a moment, without TensorFlow:

    plane = planes.get("tf_service")
    side = plane.launcher_side(settings, place, outlets)
    await side.serve()                                  # on every host that prepares batches; ends by raising
    side.missing()                                      # in the leader: None once all is ready
    side.order()                                        # in the leader: what readers need, in the message "start"

The rank's side reads:

    reader = plane.rank_side().reader(pipeline, job)    # in the trainer
    tfhet.distribute(ds)                                # in a script of one's own
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from tfhet.cluster import Place, PortRange, Role, Roles
from tfhet.events import Observer
from tfhet.messages import link, rank
from tfhet.planes.costs import PlaneCosts
from tfhet.record import Record
from tfhet.telemetry import Metric

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.placement import Pipeline
    from tfhet.planes.reader import Reader
    from tfhet.strategies import JobContext


class Loss(Enum):
    """What becomes of the job when a host that prepares batches is lost."""

    GO_ON = "go on"
    """The other hosts deliver what is left."""
    STOP = "stop"
    """The job has failed."""


@dataclass(frozen=True)
class Outlets:
    """What a plane's launcher side may use of its launcher."""

    say: Callable[[str], None]
    """Writes one line to the log."""
    report: Callable[[link.Report], None]
    """Sends a report to the leader: a `link.PlaneReport` reaches `LauncherSide.heard` there."""
    observe: Observer
    """Records an event."""
    tell_script: Callable[[rank.Order], None]
    """Sends a message to the script of this launcher's rank, now or when it starts; in vain where there is none."""
    ready_timeout_s: float
    """How long all processes of the job may take until they are ready."""


class LauncherSide(Protocol):
    """A data plane in one launcher."""

    @property
    def serves(self) -> bool:
        """Whether this launcher starts processes of the plane."""

    @property
    def words(self) -> str:
        """What the launcher says of the plane when it introduces itself."""

    @property
    def facts(self) -> Mapping[str, str]:
        """The same for programs that read the log: names without spaces, and short values."""

    async def serve(self) -> NoReturn:
        """Starts this host's processes and keeps them alive. Ends by raising: UsageError for a port in use, NotReady,
        JobFailed."""

    async def stop(self, grace_s: float) -> None:
        """Ends them, by SIGKILL after `grace_s` seconds."""

    def processes(self) -> Mapping[str, int]:
        """Process ids of those that run, by name."""

    def metrics(self) -> Mapping[Metric, float]:
        """What the metrics endpoint of this launcher shows of the plane."""

    async def beside(self, pid: int) -> None:
        """Runs while the training process `pid` of this launcher does; a plane may yield CPUs to it."""

    def environment(self, order: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
        """`env` with what the plane's reader needs in the script."""

    def reads(self, endlessly: bool) -> None:
        """The script has said that it begins to read, and whether a data set without end."""

    def heard(self, facts: Mapping[str, Any]) -> str | None:
        """In the leader: what the plane of another launcher, or this one, reports. Returns what is wrong with it."""

    def missing(self) -> str | None:
        """In the leader: what is not ready yet, in words; None when all is."""

    def order(self) -> Mapping[str, Any]:
        """In the leader, once nothing is missing: what readers need, as JSON values."""

    def begins(self) -> None:
        """In the leader: the script is about to start."""

    def lost(self, host: str) -> Loss:
        """In the leader: `host`, which served, is lost. Raises nothing; a failure is reported."""


class RankSide(Protocol):
    """A data plane in the process of a rank."""

    def reader(self, pipeline: Pipeline, job: JobContext, **options: Any) -> Reader:
        """A reader of a declared pipeline. Options: cut, compression, clock, on_first_batch."""

    def advice(self, pipeline: Pipeline, job: JobContext) -> str | None:
        """What would make the plane deliver this pipeline better; None where nothing would."""

    def plain(
        self, data: tf.data.Dataset, job: JobContext, ordinal: int, *, sharding: str, transport: Any
    ) -> tf.data.Dataset:
        """This rank's share of a plain data set. ordinal: the number of the data set in its script."""

    def declared(self, pipeline: Pipeline, job: JobContext, ordinal: int, transport: Any) -> tf.data.Dataset:
        """This rank's share of a declared pipeline, pass after pass without end, as elements with `image`, `label`,
        `id` and `epoch`."""


class DataPlane(Protocol):
    """How batches come to the ranks of a job."""

    name: str
    """What `--data_plane` says."""
    settings: type[Any]
    """Frozen dataclass of the launcher arguments that are this plane's own."""
    kinds: Mapping[str, bool]
    """Kinds of processes that faults can name, and whether the leader's host has the only one."""
    costs: PlaneCosts
    """What moving batches is assumed to cost, for a plan."""

    def measured_costs(self, record: Record) -> PlaneCosts:
        """Returns the costs in a record of `tfhet bench transport`. Raises UsageError for another record."""

    def arguments(self, servers_on_data_hosts: int, servers_on_dnn_hosts: int) -> Mapping[str, int]:
        """Returns the launcher's arguments that start so many servers on each host of the two groups."""

    def serving(self, settings: Any, roles: Roles) -> tuple[str, ...]:
        """Names of the hosts that prepare batches. Raises ClusterError for hosts that would do nothing."""

    def ports(self, settings: Any, role: Role) -> Mapping[str, PortRange]:
        """The ports that the processes on a host of this role listen on, by a name of the plane's."""

    def host_facts(self, settings: Any, role: Role) -> Mapping[str, Any]:
        """What the run record says of each host of this role."""

    def launcher_side(self, settings: Any, place: Place, outlets: Outlets) -> LauncherSide:
        """The plane in the launcher at `place`."""

    def rank_side(self) -> RankSide:
        """The plane in a rank; loads what reading needs."""

    def check(self, order: Mapping[str, Any]) -> None:
        """Raises ClusterError for an order that readers could not follow."""

    def kind_of(self, command: Sequence[str]) -> str | None:
        """Which of `kinds` a command line is of; None where it is no process of this plane."""

    def is_noise(self, line: str) -> bool:
        """Whether a line that a process of the plane, or a script that reads from it, prints can be left out of the
        log."""
