"""One launcher's part in its job: its place, its settings, and the data plane and strategy, which all share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from socket import socket
from typing import Any

from tfhet import planes, strategies, trainer
from tfhet.cluster import (
    DATA,
    LISTEN_VARIABLE,
    ROLES,
    Identity,
    Place,
    PortRange,
    Ports,
    Rank,
    Role,
    Roles,
    host_paths,
    identify,
    job_name,
    keep_free,
    roles,
)
from tfhet.control import SECRET_VARIABLE, Secret
from tfhet.errors import ClusterError, UsageError, shown
from tfhet.extras import check
from tfhet.launch.settings import LaunchSettings
from tfhet.planes import DataPlane
from tfhet.strategies import RankSource, Strategy


@dataclass(frozen=True)
class Assignment:
    place: Place
    settings: LaunchSettings
    plane: DataPlane
    strategy: Strategy
    secret: Secret
    """The secret of the job's link; it is not in the environment of processes that the launcher starts."""
    held: tuple[socket, ...] = field(default=(), repr=False)
    """The ports that this launcher keeps for its script or the strategy's server."""

    @classmethod
    def of(cls, env: Mapping[str, str], settings: LaunchSettings) -> Assignment:
        """Reads the identity of the host and its rank from the environment. Raises ClusterError and UsageError."""
        identity = identify(env)
        parts = parts_of(identity, settings)
        rank = _rank(env, parts, settings.strategy) if parts.current.trains else None
        plane = planes.chosen(settings.data_plane, settings.planes, parts)
        ports = Ports.from_env(env, control=settings.control_port, plane=_ports(settings, plane, parts.current))
        secret = Secret.from_env(env, job_name(env), {*parts.other_hosts, *parts.dnn_hosts})
        place = Place(identity, parts, rank, ports, host_paths(env), Secret.left_out(env))
        source = None if rank is None else strategies.source_of(rank, settings.strategy)
        made = cls(place, settings, plane, strategies.chosen(settings.strategy, place.size, source), secret)
        if secret.derived and not place.is_on_one_machine:
            raise UsageError(
                "other machines reach this job, which has no secret, so anyone who knows its name could join it: set "
                f"{SECRET_VARIABLE}, or the hyperparameter tfhet_secret, to the same random text on all its hosts "
                "(`tfhet submit` does)"
            )
        if made.metrics_port in ports.every:
            raise UsageError(f"--metrics_port {settings.metrics_port}: port {made.metrics_port} is taken by the job")
        return replace(made, held=tuple(keep_free() for _ in range(made.strategy.ports(place))))

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts about this launcher, which it sends when it joins."""
        ports = [each.getsockname()[1] for each in self.held]
        return {"host": self.place.host, "ranks": self.place.size, "ports": ports}

    def check_packages(self) -> None:
        """Raises MissingPackage if this host lacks a package of the data plane, the strategy, or the trainer."""
        if self.serving_hosts:
            check(self.plane.packages, f"--data_plane {self.plane.name}", "--data_plane feed")
        check(self.strategy.packages, f"--strategy {self.strategy.name}", "another strategy")
        if self.place.rank is not None and not self.settings.train_script:
            check(trainer.PACKAGES, "the built-in trainer", "--train_script FILE")

    def rank_conflict(self, member: str, facts: Mapping[str, Any]) -> str:
        """Describes a launcher whose `facts` have another number of ranks."""
        place = self.place
        return (
            f"{member} on {facts.get('host', 'another host')} has another number of ranks than this job of "
            f"{place.size}: every dnn host has to start {place.local_size}, as {place.host} does; --processes_per_host "
            "sets that number (default: the number of GPUs)"
        )

    @property
    def plane_settings(self) -> Any:
        return self.settings.planes[self.plane.name]

    @property
    def serving_hosts(self) -> tuple[str, ...]:
        """The hosts of the job that prepare batches for other hosts."""
        return self.plane.serving(self.plane_settings, self.place.roles)

    @property
    def source(self) -> RankSource | None:
        """The program that started this rank; None on a host that does not train."""
        return None if self.place.rank is None else strategies.source_of(self.place.rank, self.strategy.name)

    @property
    def numbers_ranks(self) -> bool:
        """Whether tfhet itself numbered several ranks, which must agree on their number."""
        return self.source is not None and self.source.own and self.place.size > 1

    @property
    def checks_weights(self) -> bool:
        """Whether the leader compares the weights of the ranks."""
        return self.strategy.has_replicas and self.place.size > 1 and self.settings.check_weights == "on"

    @property
    def metrics_port(self) -> int | None:
        """Port of this launcher's Prometheus endpoint, or None."""
        port, rank = self.settings.metrics_port, self.place.rank
        return port + (rank.local_rank if rank else 0) if port else None


def parts_of(identity: Identity, settings: LaunchSettings) -> Roles:
    """The roles of all hosts in a job. Raises ClusterError."""
    parts = roles(identity, settings.groups, known_roles(settings))
    if settings.strategy == strategies.AUTO:
        return parts
    return parts.led_by_first(identity.current_host, strategies.get(settings.strategy).role_of_others)


def known_roles(settings: LaunchSettings) -> tuple[Role, ...]:
    further = () if settings.strategy == strategies.AUTO else strategies.get(settings.strategy).roles
    return (*ROLES, *further)


def _ports(settings: LaunchSettings, plane: DataPlane, role: Role) -> dict[str, PortRange]:
    """The ports of the plane; `TFHET_PORTS` may also name ports of the other candidates, which are not used."""
    unused = {
        name: replace(ports, count=0)
        for other in planes.candidates(settings.data_plane)
        for name, ports in other.ports(settings.planes[other.name], role).items()
    }
    return {**unused, **plane.ports(settings.planes[plane.name], role)}


def _rank(env: Mapping[str, str], parts: Roles, strategy: str) -> Rank:
    if (rank := strategies.rank_of(env, strategy)) is not None:
        return rank
    if len(hosts := parts.dnn_hosts) > 1:
        raise ClusterError(f"{len(hosts)} dnn hosts ({', '.join(hosts)}) and no rank for this process")
    return Rank(0, 1, 0, 1, "one process on one dnn host")


def introduction(assignment: Assignment, facts: Mapping[str, Any]) -> str:
    """Returns the first line of a launcher: its part in the job. facts: see `LauncherSide.facts`."""
    place, rank, source = assignment.place, assignment.place.rank, assignment.source
    part = "delivers data" if place.roles.current is DATA else f"role {place.roles.current.name}"
    if rank is not None and source is not None:
        part = f"rank {rank.rank} of {rank.size} ({source.words})"
    given = place.env.get(LISTEN_VARIABLE, "")
    where = f"{shown(given)}{', all interfaces' * (given in ('0.0.0.0', '::'))} ({LISTEN_VARIABLE})"
    weak = "; secret derived from the job's name (set TFHET_SECRET for a real one)"
    details = ", ".join(f"{name} {value}" for name, value in facts.items())
    plane = f"data plane {assignment.plane.name}" + (f" ({details})" if details else "")
    said = f"{place.mode} job: {part}, {plane}, group {place.identity.current_group}"
    return said + f"; listens at {where}" * bool(given) + weak * assignment.secret.derived
