"""Rules about the machine."""

from __future__ import annotations

from tfhet.doctor.host import HostFacts
from tfhet.doctor.rule import RuleAnswer, Subject, limited, ok
from tfhet.units import GIB, MIB

LITTLE_MEMORY_BYTES = 4 * GIB
"""A process with TensorFlow takes about half a GiB, and even the smallest cluster has several."""
LITTLE_FREE_BYTES = LITTLE_DISK_BYTES = 2 * GIB
LITTLE_SHM_BYTES = GIB
"""Docker's default of 64 MiB is too little for ranks of one host, which exchange gradients there."""
FEW_FILES = 4096
"""Connections count as files: each rank has one to each worker, and each worker opens several input files."""
MUCH_STEAL = 0.05

MACHINE: Subject[HostFacts] = Subject("machine")


@MACHINE.rule("CPUs", "input pipelines run on them")
def cpus(host: HostFacts) -> RuleAnswer:
    if host.cores_usable < host.cores:
        found = f"{host.cores_usable} of {host.cores}, {host.cpu}"
        return limited(found, "let this process run on all (taskset, cpuset)")
    return ok(f"{host.cores}, {host.cpu}")


@MACHINE.rule(
    "CPU quota",
    "TensorFlow starts a thread for each CPU that it sees; above a quota all of them wait for the next period",
)
def quota(host: HostFacts) -> RuleAnswer:
    if host.cpu_quota is not None and host.cpu_quota < host.cores_usable:
        found = f"{host.cpu_quota:g} CPUs of time, {host.cores_usable} are visible"
        return limited(found, "give a set of CPUs (docker run --cpuset-cpus) in place of a quota (--cpus)")
    return ok("none that is less than the CPUs")


@MACHINE.rule("CPU time taken by others", "what is measured here says less about the pipeline")
def steal(host: HostFacts) -> RuleAnswer:
    found = f"{host.steal_share:.1%} since boot"
    if host.steal_share > MUCH_STEAL:
        return limited(found, "measure on a machine of your own, or repeat more and compare within a run only")
    return ok(found)


@MACHINE.rule("CPU frequency", "a step that waits is followed by one on a slow CPU: times scatter")
def governor(host: HostFacts) -> RuleAnswer | None:
    if host.governor == "powersave":
        return limited(host.governor, "cpupower frequency-set --governor performance, before anything is measured")
    return ok(host.governor) if host.governor else None


@MACHINE.rule("NUMA", "the threads of a single worker run on all nodes and fetch each other's memory")
def numa(host: HostFacts) -> RuleAnswer:
    count = host.numa_nodes
    if count > 1:
        return limited(f"{count} nodes", f"run a worker on each: --data_host_workers {count} or a multiple")
    return ok("1 node")


@MACHINE.rule("memory", "each process of a simulated cluster takes some")
def memory(host: HostFacts) -> RuleAnswer:
    found = f"{host.memory_bytes / GIB:.1f} GiB"
    if host.memory_bytes < LITTLE_MEMORY_BYTES:
        return limited(found, "simulate few hosts, with few workers each")
    return ok(found)


@MACHINE.rule("free memory", "shuffle buffers and batches in flight need it")
def free_memory(host: HostFacts) -> RuleAnswer:
    found = f"{host.memory_free_bytes / GIB:.1f} GiB"
    if host.memory_free_bytes < LITTLE_FREE_BYTES:
        return limited(found, "end what takes it; the kernel kills a process of the job otherwise")
    return ok(found)


@MACHINE.rule(
    "allocator",
    "large batches come on fresh pages each time, and memory that was freed may stay taken",
    "tensorflow/tensorflow#44176",
)
def allocator(host: HostFacts) -> RuleAnswer:
    for name in ("tcmalloc", "jemalloc", "mimalloc"):
        if name in host.preloaded:
            return ok(name)
    what = "try LD_PRELOAD=libtcmalloc_minimal.so.4 (Debian: apt-get install libtcmalloc-minimal4)"
    return limited("the C library's", what)


@MACHINE.rule("GPUs", "training runs on them; a simulated cluster can emulate an accelerator")
def gpus(host: HostFacts) -> RuleAnswer:
    if not host.gpus and not host.gpus_usable:
        return ok("none")
    names = ", ".join(sorted(set(host.gpus)))
    if host.gpus_usable < len(host.gpus):
        found = f"{len(host.gpus)}, of which TensorFlow sees {host.gpus_usable}: {names}"
        what = "look at CUDA_VISIBLE_DEVICES; install what TensorFlow needs: pip install tensorflow[and-cuda]"
        return limited(found, what)
    return ok(f"{host.gpus_usable}, {names}")


@MACHINE.rule("open files", "workers, ranks and input files need them")
def open_files(host: HostFacts) -> RuleAnswer:
    found = str(host.open_files) if host.open_files < 1 << 30 else "no limit"
    return limited(found, "ulimit -n 65536") if host.open_files < FEW_FILES else ok(found)


@MACHINE.rule("/dev/shm", "NCCL and MPI exchange gradients between ranks of a host there", "NVIDIA/nccl#290")
def shared_memory(host: HostFacts) -> RuleAnswer:
    if host.shm_bytes is None:
        return limited("there is no /dev/shm", "mount a tmpfs there")
    found = f"{host.shm_bytes / MIB:.0f} MiB"
    return limited(found, "docker run --shm-size=2g") if host.shm_bytes < LITTLE_SHM_BYTES else ok(found)


@MACHINE.rule("disk", "run records and the files of hosts in namespaces need room")
def disk(host: HostFacts) -> RuleAnswer:
    found = f"{host.disk_free_bytes / GIB:.1f} GiB in {host.directory}"
    if host.disk_free_bytes < LITTLE_DISK_BYTES:
        return limited(found, "make room, or name a --run-dir on another disk")
    return ok(found)


@MACHINE.rule("ports", "a launcher listens at 16000, 6000 and from 6001 on unless its arguments name others")
def ports(host: HostFacts) -> RuleAnswer:
    if host.busy_ports:
        what = "end it, or give the launcher --control_port, --dispatcher_port, --worker_port; a simulator takes others"
        return limited("; ".join(host.busy_ports), what)
    return ok("free")


@MACHINE.rule("host name", "hosts reach each other by their names", "horovod/horovod#3599")
def host_name(host: HostFacts) -> RuleAnswer:
    if not host.addresses:
        return limited(f"{host.name!r} leads to no address", "add it to /etc/hosts, or to the name server")
    found = f"{host.name} is {', '.join(host.addresses)}"
    if all(address.startswith("127.") for address in host.addresses):
        what = "give it the address that others reach, in /etc/hosts; in a job without SageMaker: TFHET_ADDRESSES"
        return limited(f"{found}, which on every other host means that host", what)
    return ok(found)


@MACHINE.rule("addresses", "Horovod may choose one that the others do not reach", "horovod/horovod#1341")
def addresses(host: HostFacts) -> RuleAnswer:
    listed = ", ".join(f"{name} {address}" for name, address in host.interfaces.items()) or "none"
    if len(host.interfaces) > 1:
        used = f"; the default route uses {host.default_interface}" if host.default_interface else ""
        what = "name the one that the hosts share: HOROVOD_GLOO_IFACE and NCCL_SOCKET_IFNAME"
        return limited(f"{listed}{used}", what)
    return ok(listed)


@MACHINE.rule("clock", "the events of several hosts are put in order by their clocks")
def clock(host: HostFacts) -> RuleAnswer:
    if host.is_clock_in_step is None:
        return ok("the machine does not say")
    if host.is_clock_in_step:
        return ok("kept in step")
    return limited("the kernel says that nothing keeps it in step", "run chronyd or systemd-timesyncd")


@MACHINE.rule("proxies", "gRPC, which carries the batches, goes through them", "tensorflow/tensorflow#50626")
def proxies(host: HostFacts) -> RuleAnswer:
    if host.proxies:
        what = f"unset {' '.join(host.proxies)} where the job starts: its hosts are near"
        return limited(f"{', '.join(host.proxies)} is set", what)
    return ok("none")
