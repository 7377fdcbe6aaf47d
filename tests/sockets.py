"""Sockets that a test leaves open, and those at which the processes of a job listen."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

import psutil


def open_sockets() -> set[str]:
    """The sockets of this process."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
    return {name for name in found if name.startswith("socket:")}


def check_left(before: set[str]) -> None:
    """No socket may be left that was not there before; those of another thread's look-ups go by themselves."""
    until_s = time.monotonic() + 10.0
    while open_sockets() - before:
        assert time.monotonic() < until_s, "sockets left open"
        time.sleep(0.01)


@dataclass(frozen=True)
class Listening:
    """A TCP socket that listens, or a UDP socket that takes what anybody sends."""

    kind: str
    """`tcp` or `udp`."""
    address: str
    port: int
    command: str
    """The command line of its process."""


def is_local(address: str) -> bool:
    """Whether only processes of this machine reach an IP address."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return found.is_loopback


def listening_below(pid: int) -> set[Listening]:
    """All such sockets of a process and its descendants, at whichever address."""
    first, found = psutil.Process(pid), set[Listening]()
    for process in (first, *first.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            command = " ".join(process.cmdline())
            for each in process.net_connections(kind="inet"):
                is_tcp = each.type == socket.SOCK_STREAM
                takes_any = each.status == psutil.CONN_LISTEN if is_tcp else not each.raddr
                if takes_any and each.laddr:
                    found.add(Listening("tcp" if is_tcp else "udp", each.laddr.ip, each.laddr.port, command))
    return found
