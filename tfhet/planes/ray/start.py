"""The processes of a Ray node: the arguments of `ray start`, their variables, and the end of those that outlive it.

Ray's processes answer no call without the token of the job (RAY_AUTH_MODE=token). It is in the environment of the
processes that need it, never in arguments, logs or records. They listen only at the address of their host, by a library
that they preload (listen.cc).
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tfhet.errors import UsageError
from tfhet.kernels import compiled
from tfhet.planes.process import with_malloc_tunables
from tfhet.planes.ray.settings import AGENT, DASHBOARD, FIXED, NODE, WORKERS, Capacity
from tfhet.secure import certificates, derived_key

ADVICE = re.compile(r"\b(INFO|SUCC) (scripts|usage_lib|cli_output_helpers)\.py:\d+ -- ")
"""Lines that `ray start` prints for interactive users."""
DASHBOARD_HOST = "127.0.0.1"
LOOPBACK = "127.0.0.2"
"""Used for 127.0.0.1, which Ray replaces by an address of the machine that others may reach."""
SCRIPT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1"}
"""Variables of a script. Ray's signal handler would answer SIGTERM with a C++ stack and SIGABRT."""
AUTH_TOKEN = "RAY_AUTH_TOKEN"
CERTIFICATES = {
    "RAY_TLS_SERVER_CERT": "own.pem",
    "RAY_TLS_SERVER_KEY": "private-key.pem",
    "RAY_TLS_CA_CERT": "authority.pem",
}
"""Files of a node's certificates, by the variables that name them."""
MARK = "TFHET_RAY_NODE"
"""Variable that all processes of a node inherit; its value is the node's folder."""
EFA_DEVICES = Path("/sys/class/infiniband")
_FLAGS = ("-O2", "-fPIC", "-shared", "-D_GNU_SOURCE", "-fno-exceptions", "-Wall")


@dataclass(frozen=True)
class NodeStart:
    """The node of one host."""

    ip: str
    head_at: str
    """IP:PORT of the head."""
    ports: Sequence[int]
    """At least WORKERS + 1 ports."""
    capacity: Capacity
    labels: Mapping[str, str]
    is_head: bool = False
    has_dashboard: bool = False

    def command(self, folder: Path, wait_s: float) -> list[str]:
        """Returns the command of the node's process. folder: of its files. wait_s: limit for the port of the head."""
        own = ["--head_at", self.head_at, "--ip", self.ip, "--port", str(self.ports[0]), "--wait_s", str(wait_s)]
        return [sys.executable, "-m", NODE, *own, "--folder", str(folder), "--", *self.words()]

    def words(self) -> list[str]:
        """Returns the arguments of Ray's command, which do not contain the token."""
        labels = ",".join(f"{name}={value}" for name, value in self.labels.items())
        capacity = self.capacity
        shared = [
            f"--node-ip-address={self.ip}",
            *(f"--{name}={port}" for name, port in zip(FIXED, self.ports, strict=False)),
            f"--worker-port-list={','.join(map(str, self.ports[WORKERS:]))}",
            f"--num-cpus={capacity.cpus}",
            f"--num-gpus={capacity.gpus}",
            f"--memory={capacity.memory}",
            f"--object-store-memory={capacity.object_store}",
            f"--labels={labels}",
            "--disable-usage-stats",
            "--log-style=record",
            "--block",
        ]
        if not self.is_head:
            return ["start", f"--address={self.head_at}", *shared]
        port = self.head_at.rpartition(":")[2]
        dashboard = ["--include-dashboard=false"]
        if self.has_dashboard:
            dashboard = ["--include-dashboard=true", f"--dashboard-host={DASHBOARD_HOST}"]
        dashboard += [f"--dashboard-port={self.ports[DASHBOARD]}"]
        return ["start", "--head", f"--port={port}", "--no-monitor", *dashboard, *shared]


def variables(env: Mapping[str, str], token: Mapping[str, str]) -> dict[str, str]:
    """Returns `env` with the variables for the processes of a node."""
    return {
        **with_malloc_tunables(env),
        **token,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_enable_metrics_collection": "false",  # Ray would warn without the agent of ray[default]
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # the launcher ends it within a second
        "PYTHONUNBUFFERED": "1",
    }


def token_variables(key: bytes) -> dict[str, str]:
    """Returns the variables with the token, derived from the key of the job's data plane by a one-way function."""
    return {"RAY_AUTH_MODE": "token", AUTH_TOKEN: derived_key(key, "the token of Ray").hex()}


def tls_variables(folder: Path) -> dict[str, str]:
    """Returns the variables for encrypted calls, with the files that `write_certificates` writes to `folder`."""
    return {"RAY_USE_TLS": "1", **{name: str(folder / file) for name, file in CERTIFICATES.items()}}


def write_certificates(folder: Path, key: bytes, ip: str) -> None:
    """Writes the certificates of a host. Raises OSError, and UsageError without the package `cryptography`."""
    made = certificates(key, sorted({ip, "127.0.0.1", LOOPBACK, "::1"}))
    for name, content in zip(CERTIFICATES.values(), (made.own, made.private_key, made.authority), strict=True):
        path = folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)


def listening_at(
    ip: str, head: Iterable[int], ports: Sequence[int], env: Mapping[str, str], say: Callable[[str], None]
) -> dict[str, str]:
    """Returns variables, in addition to `env`, by which Ray's processes listen at `ip` only. They need a library,
    compiled unless it is in the user's cache; without a compiler, a warning is said and there are no variables."""
    agent = ports[AGENT]  # only its raylet calls it, at the loopback
    source = Path(__file__).with_name("listen.cc")
    try:
        library = compiled(source, env, "listening at one address only", "Ray listens at all of them", _FLAGS, ".so")
    except UsageError as error:
        say(f"{error}; each still requires the token")
        return {}
    return {
        "LD_PRELOAD": ":".join(filter(None, (str(library), env.get("LD_PRELOAD", "")))),
        "TFHET_LISTEN_AT": ip,
        "TFHET_LISTEN_PORTS": f",{','.join(str(port) for port in (*head, *ports) if port != agent)},",
        "TFHET_LOOPBACK_PORTS": f",{agent},",
    }


def efa_devices(folder: Path = EFA_DEVICES) -> tuple[str, ...]:
    """Returns the names of the Elastic Fabric Adapters that processes on this host can use."""
    found = []
    with contextlib.suppress(OSError):
        for device in sorted(folder.iterdir()):
            with contextlib.suppress(OSError):
                if (device / "device" / "driver").resolve().name == "efa":
                    found.append(device.name)
    return tuple(found)


def efa_variables(interface: str, env: Mapping[str, str], folder: Path = EFA_DEVICES) -> dict[str, str]:
    """Returns variables for NCCL and Gloo; values in `env` win. interface: the network interface between the hosts."""
    wanted = {"NCCL_SOCKET_IFNAME": interface, "GLOO_SOCKET_IFNAME": interface}
    if efa_devices(folder):
        wanted |= {"FI_PROVIDER": "efa", "FI_EFA_FORK_SAFE": "1", "RDMAV_FORK_SAFE": "1"}
    return {name: value for name, value in wanted.items() if not env.get(name)}


def mark(folder: Path) -> Mapping[str, str]:
    return {MARK: str(folder)}


def end_marked(folder: Path) -> int:
    """Kills the processes that inherited the mark of the node with this folder, such as workers in process groups of
    their own. Returns their number."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == str(folder):
                process.kill()
                found.append(process)
    psutil.wait_procs(found, timeout=2.0)
    return len(found)
