"""Faults from outside a job: an earlier failed job, a second job on the same host, a damaged checkpoint, a stranger."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tfhet.clock import SYSTEM
from tfhet.cluster import DNN, HostPaths, Ports, free_ports
from tfhet.process import Child, describe_exit
from tfhet.record import RunFolder, RunSummary
from tfhet.secure import MAGIC, Purpose
from tfhet.simulate.cluster_file import GroupFile
from tfhet.simulate.host import HostBackend, SimulatedHost, resource_config

CAUSE = "an earlier job failed"
_AGO_S = 3600.0
_DAMAGES = ("cut to half", "zeroed", "removed")
LIMIT_S, GRACE_S = 60.0, 5.0
"""Seconds that a second job may run, and then take to end."""
Connect = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
SILENT = 270
"""Simultaneous connections that send nothing: more than a server lets wait for authentication."""
SCANS, RANDOM = 10, 11
"""Connections that are closed at once, and connections that send random bytes."""
_DIAL_S, _LAST_S, _SLOW_S = 2.0, 1.0, 0.1
_HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_OPENINGS = (
    _HTTP_2,  # of gRPC, with empty settings
    bytes([22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]),  # of TLS
    b"GET /metrics HTTP/1.1\r\n\r\n",
    b'{"type": "join", "member": "rank-1"}\n',
    *(MAGIC + bytes([purpose, 1]) + bytes(32) + b"a" + bytes(32) for purpose in Purpose),
)


def leave_earlier_job(paths: HostPaths, checkpoints: Path | None) -> None:
    """Writes the record, the failure file and the unfinished checkpoint of a job that failed an hour ago. checkpoints:
    the host's directory of checkpoints, if it is not in its base directory."""
    began_s = SYSTEM.wall() - _AGO_S
    summary = RunSummary(job_id="earlier-0", started=began_s, exit_code=1, cause=CAUSE)
    RunFolder(paths.output_data / "tfhet").create().write_summary(summary)
    paths.failure.write_text(f"{CAUSE}\n", encoding="utf-8")
    os.utime(paths.failure, (began_s, began_s))
    half = (checkpoints or paths.checkpoints) / ".checkpoint-0001-0000000020.1"
    half.mkdir(parents=True, exist_ok=True)
    (half / "state.index").write_bytes(b"half of it")


def damage_newest(checkpoints: Path, draw: random.Random) -> str:
    """Cuts, zeroes or removes a file of the newest checkpoint. Returns the file and the damage; "" without one."""
    newest = max(checkpoints.glob("checkpoint-*"), default=checkpoints / "none")
    files = sorted(path for path in newest.rglob("*") if path.is_file() and any(path.read_bytes()))
    if not files:
        return ""
    path, damage = draw.choice(files), draw.choice(_DAMAGES)
    content = path.read_bytes()
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(content[: len(content) // 2] if damage == _DAMAGES[0] else bytes(len(content)))
    return f"{path.relative_to(checkpoints)} {damage}"


async def run_second_job(backend: HostBackend, host: SimulatedHost) -> str:
    """Runs the job's launcher a second time, alone, on one of its hosts, with the ports that this host uses. Returns
    how it ended. Raises OSError if it cannot be started."""
    job, ports = backend.job, host.ports
    if host is not next(one for one in backend.hosts if one.group == job.dnn_group):
        control, *free = free_ports(1 + len(host.shared))
        ports = Ports(control, {**ports.plane, **{name: (port,) for name, port in zip(host.shared, free, strict=True)}})
    workers = sum(len(some) for name, some in ports.plane.items() if name not in host.shared)
    alone = replace(job, cluster=replace(job.cluster, groups={job.dnn_group: GroupFile()}))
    outside, inside, env, before = backend.second_job(host)
    second = replace(host, group=job.dnn_group, role=DNN.name, ports=ports, detour=None, paths=HostPaths(outside))
    second.write(config := resource_config(alone, second, [second]), {}, {})
    for channel in job.seen_by(job.dnn_group, job.cluster.channels):  # empty files: it ends before it reads them
        second.paths.channel(channel).mkdir(exist_ok=True)
        (second.paths.channel(channel) / "empty.tfrecord").touch()
    (servers,) = (name for name in job.plane.arguments(1, 1) if name.startswith(f"{DNN.name}_host_"))
    command = [*job.command, "--processes_per_host", "1", f"--{servers}", str(workers)]
    variables = replace(second, paths=HostPaths(inside)).variables(config, {}, {}, f"{job.job}-second", command)
    env = {**env, **variables, **second.port_variables}
    started = [*before, sys.executable, *command]
    child = await Child.start("second", started, env=env, on_line=lambda line: None, cwd=job.code)
    try:
        async with asyncio.timeout(LIMIT_S):
            code = await child.wait()
    except TimeoutError:
        return f"the second job found no port in use, and was ended after {LIMIT_S:g} s"
    finally:
        await child.stop(GRACE_S)
    failure = second.paths.failure
    cause = failure.read_text(encoding="utf-8").split("\n")[0] if failure.is_file() else "; ".join(child.tail)
    return f"the second job ended: {describe_exit(code)}: {cause}"


@dataclass(frozen=True)
class Visit:
    """The result of a visit."""

    connections: int
    most_bytes: int
    """Largest number of bytes that one connection received."""

    def __str__(self) -> str:
        return f"{self.connections} connections got {self.most_bytes} bytes at most"


async def visit(connect: Connect, address: str, port: int, seed: int = 0) -> Visit:
    """Scans a port, sends the openings of other protocols, forged proofs and random bytes, some of them slowly, and
    keeps connections open, for some seconds. Refused connections count, too."""
    draw = random.Random(seed)
    texts = [*_OPENINGS, *(draw.randbytes(draw.choice([1, 30, 5000])) for _ in range(RANDOM)), *[b""] * SILENT]
    slow = {*range(0, len(_OPENINGS) + 11, 4)}
    held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def one(text: bytes, is_slow: bool) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_DIAL_S):
                reader, writer = await connect(address, port)
            held.append((reader, writer))
            for part in (text[at : at + 1] for at in range(20)) if is_slow else (text,):
                writer.write(part)
                await writer.drain()  # fails where the other side has ended the connection
                await asyncio.sleep(_SLOW_S if is_slow else 0)

    async def received(reader: asyncio.StreamReader) -> int:
        got = 0
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LAST_S):
                while more := await reader.read(1 << 16):
                    got += len(more)
        return got

    try:
        for _ in range(SCANS):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_DIAL_S):
                    (await connect(address, port))[1].close()
        await asyncio.gather(*(one(text, index in slow) for index, text in enumerate(texts)))
        most = max(await asyncio.gather(*(received(reader) for reader, _ in held)), default=0)
    finally:
        for _, writer in held:
            writer.close()
    return Visit(SCANS + len(texts), most)
