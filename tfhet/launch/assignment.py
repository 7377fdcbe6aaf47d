"""The place of one launcher in its job: host, role, rank and addresses, decided once at the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tfhet.cluster import HostPaths, Identity, Ports, Rank, Role, Roles, host_paths, identify, resolve, roles
from tfhet.errors import ClusterError, UsageError
from tfhet.launch.settings import LaunchSettings


@dataclass(frozen=True)
class Place:
    """What this launcher is. Every launcher of a job draws the same picture, each from its own side."""

    identity: Identity
    roles: Roles
    rank: Rank | None
    """None on a data host."""
    ports: Ports
    paths: HostPaths
    settings: LaunchSettings
    env: Mapping[str, str]

    @classmethod
    def of(cls, env: Mapping[str, str], settings: LaunchSettings) -> Place:
        """Reads the host's identity and the ranks. Raises ClusterError and UsageError."""
        identity = identify(env)
        parts = roles(identity, settings.data_group, settings.dnn_group)
        rank = _rank(env, parts) if parts.role_of_current_host is Role.DNN else None
        wanted = settings.data_host_workers if rank is None else settings.dnn_host_workers
        if parts.data_hosts and not settings.data_host_workers:
            raise ClusterError(
                f"--data_host_workers 0 with data hosts ({', '.join(parts.data_hosts)}): they would do nothing; "
                "give at least 1, or leave the data group away"
            )
        ports = Ports.from_env(
            env,
            control=settings.control_port,
            dispatcher=settings.dispatcher_port,
            worker_base=settings.worker_port,
            workers=wanted,
        )
        made = cls(identity, parts, rank, ports, host_paths(env), settings, env)
        if made.metrics_port in (ports.control, ports.dispatcher, *ports.workers):
            raise UsageError(f"--metrics_port {settings.metrics_port}: port {made.metrics_port} is taken by the job")
        return made

    @property
    def host(self) -> str:
        return self.identity.current_host

    @property
    def is_chief(self) -> bool:
        """Whether the coordinator of the job runs here: in the launcher of rank 0."""
        return self.rank is not None and self.rank.rank == 0

    @property
    def leads_host(self) -> bool:
        """Whether this launcher does what a host does once."""
        return self.rank is None or self.rank.local_rank == 0

    @property
    def member(self) -> str:
        """Its name on the link: the host's, or `rank-N`."""
        return self.host if self.rank is None else f"rank-{self.rank.rank}"

    @property
    def label(self) -> str:
        """What its lines in the log begin with."""
        return self.host if self.rank is None else f"{self.host}/{self.rank.rank}"

    @property
    def size(self) -> int:
        """Number of ranks; only a dnn host knows it."""
        return self.rank.size if self.rank else 0

    @property
    def local_size(self) -> int:
        """Number of ranks of this host."""
        return self.rank.local_size if self.rank else 0

    @property
    def members(self) -> set[str]:
        """Everybody but the chief, as the chief sees it."""
        return {*self.roles.data_hosts, *(f"rank-{rank}" for rank in range(1, self.size))}

    @property
    def serving_hosts(self) -> tuple[str, ...]:
        """Hosts with data service workers."""
        with_workers = self.roles.dnn_hosts if self.settings.dnn_host_workers else ()
        return (*self.roles.data_hosts, *with_workers)

    @property
    def serves(self) -> bool:
        """Whether this launcher starts data service processes."""
        return self.dispatches or (self.leads_host and self.host in self.serving_hosts)

    @property
    def dispatches(self) -> bool:
        """Whether the dispatcher runs here: with the chief, whose loss ends the job anyway, so that no data host is one
        that the job cannot do without."""
        return self.is_chief and bool(self.serving_hosts)

    @property
    def own_workers(self) -> int:
        """Data service workers that this launcher starts."""
        if not self.leads_host:
            return 0
        return self.settings.data_host_workers if self.rank is None else self.settings.dnn_host_workers

    @property
    def workers(self) -> int:
        """Data service workers in the whole job."""
        settings, parts = self.settings, self.roles
        return len(parts.data_hosts) * settings.data_host_workers + len(parts.dnn_hosts) * settings.dnn_host_workers

    @property
    def dispatcher(self) -> str | None:
        """`host:port` of the dispatcher, for every host; None when every rank prepares its own data."""
        if not self.serving_hosts:
            return None
        return f"{self.coordinator}:{self.ports.dispatcher}"

    @property
    def coordinator(self) -> str:
        """Address of the chief's host: rank 0 is on the first dnn host, for mpirun and the toolkit alike."""
        return self.address(self.roles.dnn_hosts[0])

    @property
    def forms_ring(self) -> bool:
        """Whether nobody but tfhet tells the ranks how to find each other."""
        return self.rank is not None and self.rank.by == "alone" and self.size > 1

    @property
    def mode(self) -> str:
        return "heterogeneous" if self.roles.data_hosts else "homogeneous"

    @property
    def metrics_port(self) -> int | None:
        """Where this launcher answers Prometheus; None: nowhere."""
        port = self.settings.metrics_port
        return port + (self.rank.local_rank if self.rank else 0) if port else None

    def address(self, host: str) -> str:
        return resolve(host, self.env, self.host)


def _rank(env: Mapping[str, str], parts: Roles) -> Rank:
    rank = Rank.from_env(env)
    if rank is not None:
        return rank
    if len(parts.dnn_hosts) > 1:
        raise ClusterError(
            f"{len(parts.dnn_hosts)} dnn hosts ({', '.join(parts.dnn_hosts)}) and no rank for this process"
        )
    return Rank(0, 1, 0, 1, "one process on one dnn host")
