"""The addresses of hosts, where they listen, and free ports."""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
import socket
from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from tfhet.cluster.environment import json_variable
from tfhet.errors import ClusterError, UsageError, shown

ADDRESSES_VARIABLE = "TFHET_ADDRESSES"
LISTEN_VARIABLE = "TFHET_LISTEN"
"""Environment variable with the address at which a host listens instead; `0.0.0.0`: all interfaces."""
CHOSEN_PORTS = range(20_000, 32_000)
"""Ports that `free_ports` chooses from; by default Linux uses ports from 32768 for outgoing connections
(`net.ipv4.ip_local_port_range`)."""
_STRIDE = 307
"""Distance of the first ports of processes with consecutive ids; prime to the number of CHOSEN_PORTS."""
_SELF_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "0.0.0.0", "::", "::1")


def resolve(host: str, env: Mapping[str, str], current_host: str | None = None) -> str:
    """The address at which every host of the job reaches `host`: from `TFHET_ADDRESSES` (JSON), by default the name.
    Raises ClusterError for a loopback name of another host, and UsageError for a malformed variable."""
    address = json_variable(env, ADDRESSES_VARIABLE).get(host, host)
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


def listening(address: str, env: Mapping[str, str], *, is_alone: bool = False) -> str:
    """The IP address at which this host listens: of `TFHET_LISTEN`, by default of `address`. May look a name up. Raises
    UsageError for an address of another machine, and for a name that is loopback here, unless the host `is_alone`."""
    given, every = env.get(LISTEN_VARIABLE), list[str]()
    may_be_loopback = bool(given) or is_alone or is_loopback(address)
    with contextlib.suppress(OSError, UnicodeError):
        found = socket.getaddrinfo(given or address, None, type=socket.SOCK_STREAM)
        every = sorted({str(one[4][0]) for one in found}, key=lambda ip: (":" in ip, ip))
    for ip in every:
        with contextlib.suppress(UsageError):
            check_free(0, ip)
            if may_be_loopback or not is_loopback(ip):
                return ip
    raise UsageError(
        f"{shown(given or address)} ({', '.join(every) or 'not known here'}) is no address of this machine that others "
        f"reach; set {LISTEN_VARIABLE} to the one at which this host is to listen, or to 0.0.0.0 for all interfaces"
    )


def is_loopback(address: str) -> bool:
    """Whether an address is a loopback IP address; names are not looked up."""
    with contextlib.suppress(ValueError):
        return ip_address(address).is_loopback
    return False


def free_ports(n: int) -> tuple[int, ...]:
    """Finds `n` TCP ports that are free and that no tfhet job keeps (`claim`). Raises UsageError if there are fewer.

    Other programs on the machine rarely take these ports in the meantime: they are outside Linux's range for outgoing
    connections, each process starts its search at another port, and none is returned twice before all others were.
    """
    found: list[int] = []
    for _ in range(len(CHOSEN_PORTS)):
        if len(found) == n:
            break
        port = CHOSEN_PORTS[next(_turns(os.getpid())) % len(CHOSEN_PORTS)]
        with contextlib.suppress(UsageError):
            claim(port).close()
            found.append(port)
    if len(found) < n:
        raise UsageError(f"{n} free ports were asked for, and there are {len(found)} from {CHOSEN_PORTS[0]} on")
    return tuple(found)


@functools.cache
def _turns(process: int) -> Iterator[int]:
    """Indices into CHOSEN_PORTS, from a start that depends on the process id."""
    return itertools.count(process * _STRIDE)


def check_free(port: int, host: str = "0.0.0.0") -> None:
    """Raises UsageError, with the process that listens there, if no process can listen on `port` at `host`."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT can be listened on
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise UsageError(busy(port, host, error)) from error


def claim(port: int) -> socket.socket:
    """Keeps a port for this process until the returned socket is closed. Other tfhet jobs on this machine see the claim
    before a server binds the port, and although gRPC servers may share ports. Raises UsageError for a used port."""
    held = socket.socket(socket.AF_UNIX)
    try:
        with contextlib.suppress(FileNotFoundError, PermissionError):  # such names exist on Linux only
            held.bind(f"\0tfhet-port-{port}")  # a name without a file, in this network namespace
        check_free(port)
    except BaseException as error:
        held.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise UsageError(f"port {port} is kept by another tfhet job on this machine; give another port") from None
        raise
    return held


def keep_free(option: int = socket.SO_REUSEPORT) -> socket.socket:
    """Keeps a TCP port that is free at all addresses of this machine, until the returned socket is closed. Processes
    may bind it with `option`: SO_REUSEPORT: of this user; SO_REUSEADDR: any that knows the port."""
    is_dual = socket.has_dualstack_ipv6()
    held = socket.socket(socket.AF_INET6 if is_dual else socket.AF_INET)
    try:
        held.setsockopt(socket.SOL_SOCKET, option, 1)
        if is_dual:
            held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        held.bind(("", 0))
    except OSError:
        held.close()
        raise
    return held


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
