"""The features of this machine that a simulated cluster needs. Each is tried, and undone at once."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfhet.cluster import environment
from tfhet.container.cable import TC_BATCH, limiting, losing
from tfhet.container.hierarchy import controllers
from tfhet.container.netns import IP_BATCH, NetworkNamespace, run
from tfhet.errors import TfhetError, UsageError
from tfhet.kernels import compiler
from tfhet.versions import versions

_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}  # linux/capability.h

NAMESPACE, TOOLKIT, LIMIT, LOSE, DELAY, PRELOADED = "namespace", "toolkit", "limit", "lose", "delay", "preloaded"
PURPOSES = {
    NAMESPACE: "hosts in namespaces",
    TOOLKIT: "the toolkit on hosts in namespaces",
    LIMIT: "a limited bandwidth of hosts in namespaces",
    LOSE: "lost packets of hosts in namespaces",
    DELAY: "late packets of hosts in namespaces",
    PRELOADED: "faults of disks, clocks and names",
}
_ON_HOSTS = (NAMESPACE, TOOLKIT, LIMIT, LOSE, DELAY)


@dataclass(frozen=True)
class KernelFeature:
    """A feature that this machine has or lacks."""

    name: str
    there: bool | None
    """None: not tried, because the probe needs root."""
    detail: str
    """The finding, or how the probe failed."""
    needed_for: tuple[str, ...]
    """Keys of PURPOSES."""
    what_to_do: str


@dataclass(frozen=True)
class _Probe:
    name: str
    look: Callable[[Path], str]
    """Returns its finding, with a folder to try in. Raises OSError or TfhetError if the feature is missing."""
    needed_for: tuple[str, ...]
    what_to_do: str
    needs_root: bool = True


def probe(directory: Path | None = None) -> tuple[KernelFeature, ...]:
    """Tries all features, in some tenths of a second, and leaves nothing. directory: folder in which hosts would keep
    their files; None: the folder for temporary files."""
    return tuple(_tried(_PROBES, directory))


def missing(purpose: str, directory: Path | None = None) -> list[KernelFeature]:
    """The missing features among those that a key of PURPOSES needs. directory: as in `probe`."""
    needed = [each for each in _PROBES if purpose in each.needed_for]
    return [feature for feature in _tried(needed, directory) if feature.there is False]


def require(purpose: str, directory: Path | None = None) -> None:
    """Raises UsageError with all features that are missing for a key of PURPOSES, and what to do about each."""
    if lacking := missing(purpose, directory):
        named = "; ".join(f"{feature.name}: {feature.detail}; {feature.what_to_do}" for feature in lacking)
        raise UsageError(f"{PURPOSES[purpose]}: this machine lacks {len(lacking)} of what they need. {named}")


def _tried(probes: Iterable[_Probe], directory: Path | None) -> Iterator[KernelFeature]:
    is_root = not _lacking_capabilities()
    directory = Path(tempfile.gettempdir()) if directory is None else directory.absolute()
    directory = next(folder for folder in (directory, *directory.parents) if folder.exists())  # it will be made there
    for each in probes:
        there: bool | None = None
        detail = "not tried: it takes root"
        if is_root or not each.needs_root:
            try:
                detail, there = each.look(directory), True
            except (OSError, TfhetError) as error:
                detail, there = str(error), False
        yield KernelFeature(each.name, there, detail, each.needed_for, each.what_to_do)


def _lacking_capabilities() -> list[str]:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    effective = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
    return [name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1]


def _found(finding: str | None, otherwise: str) -> str:
    """Returns the finding. Raises UsageError with `otherwise` if it is empty."""
    if not finding:
        raise UsageError(otherwise)
    return finding


def _root(directory: Path) -> str:
    if lacking := _lacking_capabilities():
        raise UsageError(f"user {os.geteuid()} without {' and '.join(lacking)}")
    return f"user {os.geteuid()}"


def _namespaces(directory: Path) -> str:
    run(["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "true"])
    return "net, mount, uts, ipc, pid"


def _overlay(directory: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="tfhet-probe-", dir=directory) as name:
        folder = Path(name)
        for part in ("upper", "work", "root"):
            (folder / part).mkdir()
        mount = "mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root && echo > root/written"
        run(["unshare", "--mount", "sh", "-c", mount], cwd=folder)
        if not (folder / "upper" / "written").exists():
            raise UsageError("what is written does not arrive in the upper folder")
    return f"with what is written in {directory}"


def _try_in_network(finding: str, *commands: tuple[Sequence[str], Sequence[str]]) -> Callable[[Path], str]:
    """A look that runs commands, each with its input lines, in a new network namespace."""

    def look(directory: Path) -> str:
        with contextlib.closing(NetworkNamespace.new()) as namespace:
            for words, lines in commands:
                namespace.run(words, lines)
        return finding

    return look


def _compiler(directory: Path) -> str:
    return _found(" ".join(compiler(environment())), "no c++, g++ or clang++ in PATH")


def _tool(name: str, package: str, needed_for: tuple[str, ...] = _ON_HOSTS) -> _Probe:
    def look(directory: Path) -> str:
        return _found(shutil.which(name), "not installed, or not in PATH")

    return _Probe(Path(name).name, look, needed_for, f"install it (Debian: apt-get install {package})", False)


def _distribution(name: str, label: str, what_to_do: str) -> _Probe:
    return _Probe(label, lambda _: _found(versions((name,)).get(name), "not installed"), (TOOLKIT,), what_to_do, False)


def _controller(label: str, name: str, needed_for: tuple[str, ...] = ()) -> _Probe:
    def look(directory: Path) -> str:
        missing = f"no cgroup hierarchy with the controller {name} that this process may use"
        return f"cgroup v{_found(str(controllers().get(name, '')), missing)}"

    return _Probe(label, look, needed_for, f"mount cgroup v1 or v2 with the controller {name}, writable")


_VETH = ("link add probe type bridge", "link add probe1 master probe type veth peer name probe2", "link delete probe1")
_LIMIT = [limiting("lo", 1e6), limiting("lo", None)]
_LOSS = [*losing("probe", "lo", 0.5), *losing("probe", "lo", None)]
_KERNEL = "use a kernel built with {}"
_OTHER_DISK = "name a --run_dir on ext4, xfs or tmpfs, not on an overlay; or use a kernel with CONFIG_OVERLAY_FS"
_NFT = "CONFIG_NFT_NUMGEN, CONFIG_NF_TABLES_NETDEV and CONFIG_NETFILTER_INGRESS"
_PROBES = (
    _Probe("root", _root, _ON_HOSTS, "run it as root, in a container with --privileged", needs_root=False),
    _tool("ip", "iproute2"),
    _tool("tc", "iproute2", (LIMIT,)),
    _tool("nft", "nftables", (LOSE,)),
    _tool("nsenter", "util-linux"),
    _tool("unshare", "util-linux", ()),
    _tool("/usr/sbin/sshd", "openssh-server", (TOOLKIT,)),
    _tool("ssh", "openssh-client", (TOOLKIT,)),
    _tool("ssh-keygen", "openssh-client", (TOOLKIT,)),
    _tool("mpirun", "openmpi-bin", (TOOLKIT,)),
    _distribution("sagemaker-training", "toolkit", "pip install tfhet[sagemaker]"),
    _distribution("mpi4py", "mpi4py", "pip install mpi4py"),
    _Probe("C++ compiler", _compiler, (PRELOADED,), "install it (Debian: apt-get install g++)", False),
    _Probe("namespaces", _namespaces, _ON_HOSTS, _KERNEL.format("CONFIG_NET_NS, _PID_NS, _UTS_NS and _IPC_NS")),
    _Probe("overlay", _overlay, _ON_HOSTS, _OTHER_DISK),
    _Probe(
        "bridge",
        _try_in_network("bridge, veth", (IP_BATCH, _VETH)),
        _ON_HOSTS,
        _KERNEL.format("CONFIG_BRIDGE and CONFIG_VETH"),
    ),
    _controller("CPU quota", "cpu", _ON_HOSTS),
    _controller("CPU set", "cpuset"),
    _controller("memory limit", "memory"),
    _Probe(
        "bandwidth limit", _try_in_network("tbf", (TC_BATCH, _LIMIT)), (LIMIT,), _KERNEL.format("CONFIG_NET_SCH_TBF")
    ),
    _Probe(
        "packet loss",
        _try_in_network("numgen, netdev ingress", (["nft", "-f", "-"], _LOSS)),
        (LOSE,),
        _KERNEL.format(_NFT),
    ),
)
