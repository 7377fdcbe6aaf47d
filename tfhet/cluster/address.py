"""How hosts reach each other: addresses and ports."""

from __future__ import annotations

import contextlib
import errno
import json
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tfhet.cluster.environment import json_variable
from tfhet.errors import ClusterError, UsageError, shown, unknown

CONTROL_PORT = 16000
PORTS_VARIABLE = "TFHET_PORTS"
ADDRESSES_VARIABLE = "TFHET_ADDRESSES"

_SELF_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "0.0.0.0", "::", "::1")


@dataclass(frozen=True)
class PortRange:
    """Consecutive TCP ports that the processes of one kind listen on."""

    first: int
    count: int = 1
    """Number of ports, >= 0."""
    is_shared: bool = False
    """Whether the port is the same on all hosts of a job, because one process on the leader's host listens there."""


@dataclass(frozen=True)
class Ports:
    """The TCP ports of one host, all different. `control` is the same on all hosts of a job."""

    control: int = CONTROL_PORT
    plane: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Ports of the data plane's processes, by names that the plane chooses."""

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
        """The ports given in `TFHET_PORTS`, or else the arguments.

        `TFHET_PORTS` is JSON: `{"control": 16000, NAME: 6000, OTHER: [6001, 6002]}`, where the further names are those
        of `plane`; names that it omits come from the arguments. Raises UsageError for numbers that are no ports, for
        the same port twice, and for too few.
        """
        ranges, given = plane or {}, json_variable(env, PORTS_VARIABLE, dict) or {}
        for name in set(given) - {"control", *ranges}:
            unknown(f"{PORTS_VARIABLE} key", name, ("control", *ranges))
        found: dict[str, tuple[int, ...]] = {}
        for name, wanted in ranges.items():
            ports = given.get(name, [wanted.first + i for i in range(wanted.count)])
            if wanted.is_shared and not isinstance(ports, list):
                ports = [ports]
            if not isinstance(ports, list):
                raise UsageError(f"{PORTS_VARIABLE}: {name!r} must be a list of ports")
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


def resolve(host: str, env: Mapping[str, str], current_host: str | None = None) -> str:
    """The address at which every host of the job reaches `host`: from `TFHET_ADDRESSES`, else the name itself.

    `TFHET_ADDRESSES` is JSON, name -> address. Raises ClusterError for a loopback address like `localhost`, unless
    `host` is `current_host`, and UsageError for a malformed variable.
    """
    address = (json_variable(env, ADDRESSES_VARIABLE, dict) or {}).get(host, host)
    if not isinstance(address, str) or not address or not address.isprintable() or " " in address:
        raise UsageError(f"{ADDRESSES_VARIABLE}: the address of {host!r} must be text, got {shown(address)}")
    try:
        address.encode("idna")
    except UnicodeError as error:
        raise UsageError(f"{shown(address)}, the address of {host!r}, is no name of a host ({error})") from error
    if address.lower() in _SELF_NAMES and host != current_host:
        raise ClusterError(
            f"host {host!r} has the address {address!r}, which on every other host means that host itself; "
            f"give one that the others can reach, in {ADDRESSES_VARIABLE}"
        )
    return address


def free_ports(n: int, host: str = "127.0.0.1") -> tuple[int, ...]:
    """`n` different TCP ports that are free at `host` now. Another process may take one before you do."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(_family(host), socket.SOCK_STREAM)) for _ in range(n)]
        for each in sockets:
            each.bind((host, 0))
        return tuple(each.getsockname()[1] for each in sockets)


def check_free(port: int, host: str = "0.0.0.0") -> None:
    """Raises UsageError when `port` cannot be listened on at `host`, saying who listens there where that is known."""
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT can be listened on
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise UsageError(busy(port, host, error)) from error


def busy(port: int, host: str, error: BaseException) -> str:
    """The message for a bind of `host`:`port` that failed with `error`."""
    code = getattr(error, "errno", None)
    if code == errno.EADDRINUSE:
        return f"port {port} at {host} is in use by {_listener(port)}; end it, or give another port"
    if code == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine; give one that is"
    if code in (errno.EACCES, errno.EPERM):
        return f"port {port} may not be used by this user; give one above 1023"
    return f"cannot listen on port {port} at {host}: {error}"


def _listener(port: int) -> str:
    import psutil  # here: reading an identity or a job does not need it

    with contextlib.suppress(psutil.Error, OSError, RuntimeError):
        for connection in psutil.net_connections(kind="tcp"):
            listens_at = connection.laddr if connection.status == psutil.CONN_LISTEN else ()
            if tuple(listens_at)[1:2] == (port,) and connection.pid:
                process = psutil.Process(connection.pid)
                return f"process {connection.pid} ({' '.join(process.cmdline())[:120] or process.name()})"
    return "another process"


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
