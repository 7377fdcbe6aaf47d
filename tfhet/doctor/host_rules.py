"""Rules about the machine."""

from __future__ import annotations

from tfhet.doctor.host import Host
from tfhet.doctor.rule import Rule, RuleAnswer, Subject, limited, ok
from tfhet.units import GIB, MIB

LITTLE_MEMORY_BYTES = 4 * GIB
"""A process with TensorFlow takes about half a GiB, and even the smallest cluster has some."""
LITTLE_FREE_BYTES = 2 * GIB
LITTLE_SHM_BYTES = GIB
"""Docker's usual 64 MiB are too few for ranks of one host, which exchange gradients there."""
LITTLE_DISK_BYTES = 2 * GIB
FEW_FILES = 4096
"""Connections count as files: each rank has one to each worker, and each worker opens several input files."""
MUCH_STEAL = 0.05


def cpus(host: Host) -> RuleAnswer:
    if host.cores_usable < host.cores:
        found = f"{host.cores_usable} of {host.cores}, {host.cpu}"
        return limited(found, "let this process run on all (taskset, cpuset)")
    return ok(f"{host.cores}, {host.cpu}")


def quota(host: Host) -> RuleAnswer:
    if host.cpu_quota is not None and host.cpu_quota < host.cores_usable:
        found = f"{host.cpu_quota:g} CPUs of time, {host.cores_usable} to be seen"
        return limited(found, "give a set of CPUs (docker run --cpuset-cpus) in place of a quota (--cpus)")
    return ok("none that is less than the CPUs")


def steal(host: Host) -> RuleAnswer:
    found = f"{host.steal_share:.1%} since boot"
    if host.steal_share > MUCH_STEAL:
        return limited(found, "measure on a machine of your own, or repeat more and compare within a run only")
    return ok(found)


def governor(host: Host) -> RuleAnswer | None:
    if host.governor == "powersave":
        return limited(host.governor, "cpupower frequency-set --governor performance, before anything is measured")
    return ok(host.governor) if host.governor else None


def numa(host: Host) -> RuleAnswer:
    if host.numa_nodes > 1:
        return limited(
            f"{host.numa_nodes} nodes", f"run a worker on each: --data_host_workers {host.numa_nodes} or a multiple"
        )
    return ok("1 node")


def memory(host: Host) -> RuleAnswer:
    found = f"{host.memory_bytes / GIB:.1f} GiB"
    if host.memory_bytes < LITTLE_MEMORY_BYTES:
        return limited(found, "simulate few hosts, with few workers each")
    return ok(found)


def free_memory(host: Host) -> RuleAnswer:
    found = f"{host.memory_free_bytes / GIB:.1f} GiB"
    if host.memory_free_bytes < LITTLE_FREE_BYTES:
        return limited(found, "end what takes it; the kernel kills a process of the job otherwise")
    return ok(found)


def allocator(host: Host) -> RuleAnswer:
    for name in ("tcmalloc", "jemalloc", "mimalloc"):
        if name in host.preloaded:
            return ok(name)
    return limited(
        "the C library's", "try LD_PRELOAD=libtcmalloc_minimal.so.4 (Debian: apt-get install libtcmalloc-minimal4)"
    )


def gpus(host: Host) -> RuleAnswer:
    if not host.gpus and not host.gpus_usable:
        return ok("none")
    names = ", ".join(sorted(set(host.gpus)))
    if host.gpus_usable < len(host.gpus):
        return limited(
            f"{len(host.gpus)}, of which TensorFlow sees {host.gpus_usable}: {names}",
            "look at CUDA_VISIBLE_DEVICES; install what TensorFlow needs: pip install tensorflow[and-cuda]",
        )
    return ok(f"{host.gpus_usable}, {names}")


def open_files(host: Host) -> RuleAnswer:
    found = str(host.open_files) if host.open_files < 1 << 30 else "no limit"
    return limited(found, "ulimit -n 65536") if host.open_files < FEW_FILES else ok(found)


def shared_memory(host: Host) -> RuleAnswer:
    if host.shm_bytes is None:
        return limited("there is no /dev/shm", "mount a tmpfs there")
    found = f"{host.shm_bytes / MIB:.0f} MiB"
    return limited(found, "docker run --shm-size=2g") if host.shm_bytes < LITTLE_SHM_BYTES else ok(found)


def disk(host: Host) -> RuleAnswer:
    found = f"{host.disk_free_bytes / GIB:.1f} GiB in {host.directory}"
    if host.disk_free_bytes < LITTLE_DISK_BYTES:
        return limited(found, "make room, or name a --run-dir on another disk")
    return ok(found)


def ports(host: Host) -> RuleAnswer:
    if host.busy_ports:
        what = "end it, or give the launcher --control_port, --dispatcher_port, --worker_port; a simulator takes others"
        return limited("; ".join(host.busy_ports), what)
    return ok("free")


def host_name(host: Host) -> RuleAnswer:
    if not host.addresses:
        return limited(f"{host.name!r} leads to no address", "add it to /etc/hosts, or to the name server")
    found = f"{host.name} is {', '.join(host.addresses)}"
    if all(address.startswith("127.") for address in host.addresses):
        what = "give it the address that others reach, in /etc/hosts; in a job without SageMaker: TFHET_ADDRESSES"
        return limited(f"{found}, which on every other host means that host", what)
    return ok(found)


def addresses(host: Host) -> RuleAnswer:
    listed = ", ".join(f"{name} {address}" for name, address in host.interfaces.items()) or "none"
    if len(host.interfaces) > 1:
        used = f"; the default route uses {host.default_interface}" if host.default_interface else ""
        what = "name the one that the hosts share: HOROVOD_GLOO_IFACE and NCCL_SOCKET_IFNAME"
        return limited(f"{listed}{used}", what)
    return ok(listed)


def clock(host: Host) -> RuleAnswer:
    if host.is_clock_in_step is None:
        return ok("the machine does not tell")
    if host.is_clock_in_step:
        return ok("kept in step")
    return limited("the kernel says that nothing keeps it in step", "run chronyd or systemd-timesyncd")


def proxies(host: Host) -> RuleAnswer:
    if host.proxies:
        return limited(
            f"{', '.join(host.proxies)} is set",
            f"unset {' '.join(host.proxies)} where the job starts: its hosts are near",
        )
    return ok("none")


MACHINE = Subject(
    "machine",
    (
        Rule("CPUs", cpus, "input pipelines"),
        Rule(
            "CPU quota",
            quota,
            "TensorFlow starts a thread for each CPU that it sees; above a quota all of them wait for the next period",
        ),
        Rule("CPU time taken by others", steal, "what is measured here says less about the pipeline"),
        Rule("CPU frequency", governor, "a step that waits is followed by one on a slow CPU: times scatter"),
        Rule("NUMA", numa, "else one worker's threads run on all nodes and fetch each other's memory"),
        Rule("memory", memory, "simulated clusters"),
        Rule("free memory", free_memory, "shuffle buffers and batches in flight"),
        Rule(
            "allocator",
            allocator,
            "large batches come on fresh pages each time, and memory that was freed may stay taken",
            "tensorflow/tensorflow#44176",
        ),
        Rule("GPUs", gpus, "training; a simulated cluster can emulate an accelerator"),
        Rule("open files", open_files, "workers, ranks and input files"),
        Rule(
            "/dev/shm",
            shared_memory,
            "NCCL and MPI exchange gradients between ranks of a host there",
            "NVIDIA/nccl#290",
        ),
        Rule("disk", disk, "run records, and what hosts in namespaces write"),
        Rule("ports", ports, "a launcher that is told no others listens at 16000, 6000 and from 6001 on"),
        Rule("host name", host_name, "hosts reach each other by their names", "horovod/horovod#3599"),
        Rule("addresses", addresses, "Horovod may choose one that the others do not reach", "horovod/horovod#1341"),
        Rule("clock", clock, "the events of several hosts are put in order by their clocks"),
        Rule("proxies", proxies, "gRPC, which carries the batches, goes through them", "tensorflow/tensorflow#50626"),
    ),
)
