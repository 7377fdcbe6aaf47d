"""Facts about this machine, and rules that judge them."""

from __future__ import annotations

import resource
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tfhet.cluster import CONTROL_PORT, check_free
from tfhet.doctor.rule import RuleAnswer, Subject, limited, ok
from tfhet.errors import UsageError
from tfhet.planes.tf_service import ServiceSettings
from tfhet.record import machine
from tfhet.telemetry import cpu_quota
from tfhet.units import GIB, MIB

PORTS = (CONTROL_PORT, ServiceSettings.dispatcher_port, *(ServiceSettings.worker_port + n for n in range(4)))
"""Default ports of a launcher, with up to four workers on a host."""
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""gRPC's own order (doc/environment_variables.md of gRPC); it reads them in lower case only."""
_NO_LIMIT = 2**30


@dataclass(frozen=True)
class HostFacts:
    cpu: str
    cores: int
    cores_usable: int
    cpu_quota: float | None
    """CPUs that the control group allows; None: no limit."""
    numa_nodes: int
    memory_bytes: int
    memory_free_bytes: int
    gpus: tuple[str, ...]
    gpus_seen: Mapping[str, int]
    open_files: int
    """Maximum per process; 2**30 without a limit."""
    shm_bytes: int | None
    """Size of /dev/shm; None if it does not exist."""
    directory: str
    disk_free_bytes: int
    busy_ports: tuple[str, ...]
    """Error message of each of PORTS that is in use."""
    name: str
    addresses: tuple[str, ...]
    """IPv4 addresses of the name; may be empty."""
    proxies: tuple[str, ...]
    """Variables that send gRPC through a proxy."""


def look(
    env: Mapping[str, str], gpus_seen: Mapping[str, int], directory: Path | None = None, root: Path = Path("/")
) -> HostFacts:
    """Reads all facts. root: location of /proc and /sys, for tests."""
    here = machine(root / "proc")
    wanted = (directory or Path(tempfile.gettempdir())).absolute()
    there = str(next(each for each in (wanted, *wanted.parents) if each.exists()))
    files, shm = resource.getrlimit(resource.RLIMIT_NOFILE)[0], root / "dev/shm"
    return HostFacts(
        cpu=here["cpu"],
        cores=here["cores"],
        cores_usable=here["cores_usable"],
        cpu_quota=cpu_quota(root),
        numa_nodes=len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or 1,
        memory_bytes=here["memory_bytes"],
        memory_free_bytes=int(psutil.virtual_memory().available),
        gpus=tuple(here["gpus"]),
        gpus_seen=gpus_seen,
        open_files=_NO_LIMIT if files == resource.RLIM_INFINITY else files,
        shm_bytes=psutil.disk_usage(str(shm)).total if shm.is_dir() else None,
        directory=there,
        disk_free_bytes=psutil.disk_usage(there).free,
        busy_ports=_busy(PORTS),
        name=socket.gethostname(),
        addresses=_addresses(socket.gethostname()),
        proxies=tuple(name for name in _PROXIES if env.get(name)),
    )


def _busy(ports: Sequence[int]) -> tuple[str, ...]:
    found = []
    for port in ports:
        try:
            check_free(port)
        except UsageError as error:
            found.append(str(error))
    return tuple(found)


def _addresses(name: str) -> tuple[str, ...]:
    try:
        return tuple(sorted({str(each[4][0]) for each in socket.getaddrinfo(name, None, socket.AF_INET)}))
    except (OSError, UnicodeError):
        return ()


MACHINE: Subject[HostFacts] = Subject("machine")


@MACHINE.rule("CPUs", "input pipelines run on them")
def cpus(host: HostFacts) -> RuleAnswer:
    found = f"{host.cores_usable} of {host.cores}, {host.cpu}"
    what = "let this process run on all (taskset, cpuset)"
    return limited(found, what, when=host.cores_usable < host.cores, otherwise=f"{host.cores}, {host.cpu}")


@MACHINE.rule("CPU quota", "TensorFlow starts a thread per visible CPU; above the quota all of them wait")
def quota(host: HostFacts) -> RuleAnswer:
    if host.cpu_quota is not None and host.cpu_quota < host.cores_usable:
        found = f"{host.cpu_quota:g} CPUs of time, {host.cores_usable} are visible"
        return limited(found, "give a set of CPUs (docker run --cpuset-cpus) in place of a quota (--cpus)")
    return ok("none that is less than the CPUs")


@MACHINE.rule("NUMA", "the threads of a single worker run on all nodes and fetch each other's memory")
def numa(host: HostFacts) -> RuleAnswer:
    what = f"run a worker on each: --data_host_workers {host.numa_nodes} or a multiple"
    return limited(f"{host.numa_nodes} nodes", what, when=host.numa_nodes > 1, otherwise="1 node")


@MACHINE.rule("memory", "each process with TensorFlow takes about half a GiB, and a simulated cluster has several")
def memory(host: HostFacts) -> RuleAnswer:
    what = "simulate few hosts, with few workers each"
    return limited(f"{host.memory_bytes / GIB:.1f} GiB", what, when=host.memory_bytes < 4 * GIB)


@MACHINE.rule("free memory", "shuffle buffers and batches in flight need it")
def free_memory(host: HostFacts) -> RuleAnswer:
    what = "end other programs that use memory; otherwise the kernel may kill a process of the job"
    return limited(f"{host.memory_free_bytes / GIB:.1f} GiB", what, when=host.memory_free_bytes < 2 * GIB)


@MACHINE.rule("GPUs", "training runs on them; a simulated cluster can emulate an accelerator")
def gpus(host: HostFacts) -> RuleAnswer:
    most = max(host.gpus_seen.values(), default=0)
    if not host.gpus and not most:
        return ok("none")
    names = ", ".join(sorted(set(host.gpus)))
    seen = " and ".join(f"{library} sees {count}" for library, count in host.gpus_seen.items())
    found = f"{len(host.gpus)}; {seen or 'no library sees any'}: {names}"
    what = "check CUDA_VISIBLE_DEVICES; pip install tensorflow[and-cuda], or PyTorch for CUDA"
    return limited(found, what, when=most < len(host.gpus), otherwise=found)


@MACHINE.rule("open files", "each connection counts as one, and each rank has one to each worker")
def open_files(host: HostFacts) -> RuleAnswer:
    found = str(host.open_files) if host.open_files < _NO_LIMIT else "no limit"
    return limited(found, "ulimit -n 65536", when=host.open_files < 4096)


@MACHINE.rule("/dev/shm", "NCCL and MPI exchange gradients between ranks of a host there", "NVIDIA/nccl#290")
def shared_memory(host: HostFacts) -> RuleAnswer:
    if host.shm_bytes is None:
        return limited("there is no /dev/shm", "mount a tmpfs there")
    return limited(f"{host.shm_bytes / MIB:.0f} MiB", "docker run --shm-size=2g", when=host.shm_bytes < GIB)


@MACHINE.rule("disk", "run records and the files of hosts in namespaces need room")
def disk(host: HostFacts) -> RuleAnswer:
    found, what = f"{host.disk_free_bytes / GIB:.1f} GiB in {host.directory}", "make room, or use another --run_dir"
    return limited(found, what, when=host.disk_free_bytes < 2 * GIB)


@MACHINE.rule("ports", "a launcher listens at 16000, 6000 and from 6001 on unless its arguments name others")
def ports(host: HostFacts) -> RuleAnswer:
    what = "end it, or give the launcher --control_port, --dispatcher_port, --worker_port; a simulator takes others"
    return limited("; ".join(host.busy_ports), what, when=host.busy_ports, otherwise="free")


@MACHINE.rule("host name", "hosts reach each other by their names", "horovod/horovod#3599")
def host_name(host: HostFacts) -> RuleAnswer:
    if not host.addresses:
        return limited(f"{host.name!r} has no address", "add it to /etc/hosts, or to the name server")
    found = f"{host.name} is {', '.join(host.addresses)}"
    is_loopback = all(address.startswith("127.") for address in host.addresses)
    what = "give it the address that others reach, in /etc/hosts; in a job without SageMaker: TFHET_ADDRESSES"
    return limited(f"{found}, which on every other host means that host", what, when=is_loopback, otherwise=found)


@MACHINE.rule("proxies", "gRPC, which carries the batches, goes through them", "tensorflow/tensorflow#50626")
def proxies(host: HostFacts) -> RuleAnswer:
    what = f"unset {' '.join(host.proxies)} where the job starts, so that its hosts connect directly"
    return limited(f"{', '.join(host.proxies)} is set", what, when=host.proxies, otherwise="none")
