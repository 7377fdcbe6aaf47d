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
from tfhet.container import tool
from tfhet.container.cable import IP_BATCH, TC_BATCH, limiting, losing
from tfhet.container.hierarchy import controllers
from tfhet.container.netns import NetworkNamespace
from tfhet.errors import TfhetError, UsageError, check_known
from tfhet.native import compiler
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
"""Purposes that features are needed for, by key."""
_ON_HOSTS = (NAMESPACE, TOOLKIT, LIMIT, LOSE, DELAY)


@dataclass(frozen=True)
class KernelFeature:
    """One thing that this machine has, or lacks."""

    name: str
    there: bool | None
    """None: not tried, because the probe takes root."""
    detail: str
    """The finding, or how the probe failed."""
    needed_for: tuple[str, ...]
    """Keys of PURPOSES."""
    what_to_do: str


_Look = Callable[[Path], str]
"""Returns what it found, given a folder to try in. Raises OSError or TfhetError where the feature is missing."""


@dataclass(frozen=True)
class _Probe:
    name: str
    look: _Look
    needed_for: tuple[str, ...]
    what_to_do: str
    needs_root: bool = True


def probe(directory: Path | None = None) -> tuple[KernelFeature, ...]:
    """All features. directory: where hosts would keep what they write; None: the folder for temporary files. Takes some
    tenths of a second, and leaves nothing."""
    return tuple(_look_for(_PROBES, directory))


def missing(for_what: str, directory: Path | None = None) -> list[KernelFeature]:
    """The missing features of those that a key of PURPOSES needs. See `probe`."""
    check_known("purpose", for_what, PURPOSES)
    needed = [each for each in _PROBES if for_what in each.needed_for]
    return [feature for feature in _look_for(needed, directory) if feature.there is False]


def require(for_what: str, directory: Path | None = None) -> None:
    """Raises a UsageError that names all that is missing for a key of PURPOSES, and what to do about each."""
    if lacking := missing(for_what, directory):
        named = "; ".join(f"{feature.name}: {feature.detail}; {feature.what_to_do}" for feature in lacking)
        raise UsageError(f"{PURPOSES[for_what]}: this machine lacks {len(lacking)} of what they need. {named}")


def _look_for(probes: Iterable[_Probe], directory: Path | None) -> Iterator[KernelFeature]:
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
    """Returns a finding that is not empty. Raises UsageError with `otherwise` for others."""
    if not finding:
        raise UsageError(otherwise)
    return finding


def _root(directory: Path) -> str:
    if lacking := _lacking_capabilities():
        raise UsageError(f"user {os.geteuid()} without {' and '.join(lacking)}")
    return f"user {os.geteuid()}"


def _namespaces(directory: Path) -> str:
    tool.run(["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "true"])
    return "net, mount, uts, ipc, pid"


def _overlay(directory: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="tfhet-probe-", dir=directory) as name:
        folder = Path(name)
        for part in ("upper", "work", "root"):
            (folder / part).mkdir()
        mount = "mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root && echo > root/written"
        tool.run(["unshare", "--mount", "sh", "-c", mount], cwd=folder)
        if not (folder / "upper" / "written").exists():
            raise UsageError("what is written does not arrive in the upper folder")
    return f"with what is written in {directory}"


def _try_in_network(words: Sequence[str], lines: Sequence[str]) -> None:
    with contextlib.closing(NetworkNamespace.new()) as namespace:
        namespace.run(words, lines)


def _bridge(directory: Path) -> str:
    lines = ["link add probe type bridge", "link add probe1 master probe type veth peer name probe2"]
    _try_in_network(IP_BATCH, [*lines, "link delete probe1", "link delete probe"])
    return "bridge, veth"


def _tbf(directory: Path) -> str:
    _try_in_network(TC_BATCH, [limiting("lo", 1e6), limiting("lo", None)])
    return "tbf"


def _compiler(directory: Path) -> str:
    return _found(" ".join(compiler(environment())), "no c++, g++ or clang++ in PATH")


def _random_loss(directory: Path) -> str:
    _try_in_network(["nft", "-f", "-"], [*losing("probe", "lo", 0.5), *losing("probe", "lo", None)])
    return "numgen, netdev ingress"


def _controller(name: str) -> _Look:
    missing = f"no cgroup hierarchy with the controller {name} that this process may use"
    return lambda _: f"cgroup v{_found(str(controllers().get(name, '')), missing)}"


def _tool(name: str) -> _Look:
    return lambda _: _found(shutil.which(name), "not installed, or not in PATH")


def _distribution(name: str) -> _Look:
    return lambda _: _found(versions((name,)).get(name), "not installed")


def _install(package: str) -> str:
    return f"install it (Debian: apt-get install {package})"


_KERNEL = "use a kernel built with {}"
_PROBES = (
    _Probe("root", _root, _ON_HOSTS, "run it as root, in a container with --privileged", needs_root=False),
    _Probe("ip", _tool("ip"), _ON_HOSTS, _install("iproute2"), False),
    _Probe("tc", _tool("tc"), (LIMIT,), _install("iproute2"), False),
    _Probe("nft", _tool("nft"), (LOSE,), _install("nftables"), False),
    _Probe("nsenter", _tool("nsenter"), _ON_HOSTS, _install("util-linux"), False),
    _Probe("unshare", _tool("unshare"), (), _install("util-linux"), False),
    _Probe("sshd", _tool("/usr/sbin/sshd"), (TOOLKIT,), _install("openssh-server"), False),
    _Probe("ssh", _tool("ssh"), (TOOLKIT,), _install("openssh-client"), False),
    _Probe("ssh-keygen", _tool("ssh-keygen"), (TOOLKIT,), _install("openssh-client"), False),
    _Probe("mpirun", _tool("mpirun"), (TOOLKIT,), _install("openmpi-bin"), False),
    _Probe("toolkit", _distribution("sagemaker-training"), (TOOLKIT,), "pip install tfhet[sagemaker]", False),
    _Probe("mpi4py", _distribution("mpi4py"), (TOOLKIT,), "pip install mpi4py", False),
    _Probe("C++ compiler", _compiler, (PRELOADED, DELAY), _install("g++"), False),
    _Probe("namespaces", _namespaces, _ON_HOSTS, _KERNEL.format("CONFIG_NET_NS, _PID_NS, _UTS_NS and _IPC_NS")),
    _Probe(
        "overlay",
        _overlay,
        _ON_HOSTS,
        "name a --run_dir on a file system like ext4, xfs or tmpfs, not on an overlay; or use a kernel with"
        " CONFIG_OVERLAY_FS",
    ),
    _Probe("bridge", _bridge, _ON_HOSTS, _KERNEL.format("CONFIG_BRIDGE and CONFIG_VETH")),
    _Probe("CPU quota", _controller("cpu"), _ON_HOSTS, "mount cgroup v1 or v2 with the controller cpu, writable"),
    _Probe("CPU set", _controller("cpuset"), (), "mount cgroup v1 or v2 with the controller cpuset, writable"),
    _Probe("memory limit", _controller("memory"), (), "mount cgroup v1 or v2 with the controller memory, writable"),
    _Probe("bandwidth limit", _tbf, (LIMIT,), _KERNEL.format("CONFIG_NET_SCH_TBF")),
    _Probe(
        "packet loss",
        _random_loss,
        (LOSE,),
        _KERNEL.format("CONFIG_NFT_NUMGEN, CONFIG_NF_TABLES_NETDEV and CONFIG_NETFILTER_INGRESS"),
    ),
)
