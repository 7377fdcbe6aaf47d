"""A second job, which somebody starts on a host of a job that runs, with the same ports."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from tfhet.cluster import DNN, HostPaths, Ports, free_ports
from tfhet.deadline import Deadline
from tfhet.process import Child, describe_exit
from tfhet.simulate.cluster_file import GroupFile
from tfhet.simulate.host import HostBackend, SimulatedHost, resource_config

LIMIT_S, GRACE_S = 60.0, 5.0
"""Seconds after which a second job that found no port in use is ended, and that it may take to end."""


async def run_second_job(backend: HostBackend, host: SimulatedHost) -> str:
    """Runs the job's launcher once more on one of its hosts, alone, and returns how that ended. Raises OSError.

    It is given the ports that processes of this host have; those of the leader on another host are free ones here.
    """
    job, ports = backend.job, host.ports
    if host is not next(one for one in backend.hosts if one.group == job.dnn_group):
        control, *free = free_ports(1 + len(host.shared))
        ports = Ports(control, {**ports.plane, **{name: (port,) for name, port in zip(host.shared, free, strict=True)}})
    workers = sum(len(some) for name, some in ports.plane.items() if name not in host.shared)
    alone = replace(job, cluster=replace(job.cluster, groups={job.dnn_group: GroupFile()}))
    outside, inside, env, before = backend.beside(host)
    second = replace(host, group=job.dnn_group, role=DNN.name, ports=ports, detour=None, paths=HostPaths(outside))
    config = resource_config(alone, second, [second])
    second.write(config, {}, {})
    command = [*job.command, "--processes_per_host", "1", "--dnn_host_workers", str(workers)]
    variables = replace(second, paths=HostPaths(inside)).variables(config, [], f"{job.job}-second", command[1:])
    env = {**env, **variables, **second.sees}
    child = await Child.start(
        "second", [*before, sys.executable, *command], env=env, on_line=lambda line: None, cwd=job.code
    )
    try:
        async with Deadline(LIMIT_S):
            code = await child.wait()
    except asyncio.TimeoutError:
        return f"the second job found no port in use, and was ended after {LIMIT_S:g} s"
    finally:
        await child.stop(GRACE_S)
    failure = second.paths.failure
    cause = failure.read_text(encoding="utf-8").split("\n")[0] if failure.is_file() else "; ".join(child.tail)
    return f"the second job ended: {describe_exit(code)}: {cause}"
