"""Where the processes of a Ray cluster listen: at the address of their host in the cluster, by a library that they
preload (listen.cc)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tfhet.native import compiled

_FLAGS = ("-O2", "-fPIC", "-shared", "-D_GNU_SOURCE", "-fno-exceptions", "-Wall")


def listening_at(ip: str, ports: Iterable[int], loopback: Iterable[int], env: Mapping[str, str]) -> dict[str, str]:
    """The variables, in addition to `env`, of processes that listen at these ports of `ip` only, and at the ports
    `loopback` of the loopback only. Compiles the library
    unless it is in the user's cache. Raises UsageError where it cannot be had."""
    source = Path(__file__).with_suffix(".cc")
    library = compiled(source, env, "listening at one address only", "Ray listens at all of them", _FLAGS, ".so")
    preload = ":".join(filter(None, (str(library), env.get("LD_PRELOAD", ""))))
    mine, local = (f",{','.join(map(str, some))}," for some in (ports, loopback))
    return {
        "LD_PRELOAD": preload,
        "TFHET_LISTEN_AT": ip,
        "TFHET_LISTEN_PORTS": mine,
        "TFHET_LOOPBACK_PORTS": local,
    }
