"""The TCP ports that the processes of a host listen on."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tfhet.cluster.environment import json_variable
from tfhet.errors import UsageError, check_known, shown

CONTROL_PORT = 16000
PORTS_VARIABLE = "TFHET_PORTS"


@dataclass(frozen=True)
class PortRange:
    """Consecutive TCP ports that the processes of one kind listen on."""

    first: int
    count: int = 1
    is_shared: bool = False
    """Whether all hosts of a job use the same port, on which one process on the leader's host listens."""


@dataclass(frozen=True)
class Ports:
    """The TCP ports of one host, all different. `control` is the same on all hosts of a job."""

    control: int = CONTROL_PORT
    plane: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Ports of the data plane's processes, by names from the plane."""

    def __post_init__(self) -> None:
        every = self.every
        for port in every:
            if type(port) is not int or not 1 <= port <= 65535:
                raise UsageError(f"{shown(port)} is not a TCP port; use 1 to 65535")
        if len(set(every)) != len(every):
            names = " and ".join(["control", *self.plane])
            raise UsageError(f"the ports of {names} must differ, got {', '.join(map(str, every))}")

    @property
    def every(self) -> tuple[int, ...]:
        return (self.control, *(port for ports in self.plane.values() for port in ports))

    @classmethod
    def from_env(
        cls, env: Mapping[str, str], *, control: int = CONTROL_PORT, plane: Mapping[str, PortRange] | None = None
    ) -> Ports:
        """The ports given in `TFHET_PORTS`, or else the arguments. The variable is JSON with the names of `plane`, like
        `{"control": 16000, NAME: 6000, OTHER: [6001, 6002]}`; what it omits comes from the arguments. Raises UsageError
        for numbers that are no ports, for the same port twice, and for too few."""
        ranges, given = plane or {}, json_variable(env, PORTS_VARIABLE)
        for name in given:
            check_known(f"{PORTS_VARIABLE} key", name, ("control", *ranges))
        found: dict[str, tuple[int, ...]] = {}
        for name, wanted in ranges.items():
            ports = given.get(name, [wanted.first + i for i in range(wanted.count)])
            ports = ports if isinstance(ports, list) else [ports]
            if len(ports) < wanted.count:
                raise UsageError(f"{PORTS_VARIABLE} gives {len(ports)} {name} ports, this host needs {wanted.count}")
            found[name] = tuple(ports[: wanted.count])
        try:
            return cls(given.get("control", control), found)
        except UsageError as error:
            raise UsageError(f"{PORTS_VARIABLE if given else 'ports'}: {error}") from error

    def to_env(self, shared: Collection[str] = ()) -> dict[str, str]:
        """The variable that `from_env` reads. shared: names in `plane` that have a single port."""
        plane = {name: ports[0] if name in shared and ports else list(ports) for name, ports in self.plane.items()}
        return {PORTS_VARIABLE: json.dumps({"control": self.control, **plane})}
