"""Networks of the kernel. Without root, or without a tool or a feature of the kernel, tests are skipped and name it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tfhet.container import kernel
from tfhet.container.bridge import Bridge
from tfhet.container.cable import BURST_BYTES, limiting
from tfhet.container.netns import NetworkNamespace
from tfhet.errors import TfhetError, UsageError

pytestmark = pytest.mark.timeout(120)
WAIT_S = 30.0
MEGABYTE = os.urandom(1 << 20)


@pytest.fixture(scope="module")
def need() -> Callable[..., None]:
    """`need(feature, ...)` skips the test unless the machine has these features."""
    features = {feature.name: feature for feature in kernel.probe()}

    def check(*names: str) -> None:
        if lacking := [f"{name}: {features[name].detail}" for name in names if not features[name].there]:
            pytest.skip("; ".join(lacking))

    return check


class Host:
    """A process with its own network namespace, and sockets in it."""

    def __init__(self, address: str):
        self.address = address
        # cat answers when it runs; the namespace exists then
        self.process = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
        self.namespace = NetworkNamespace.of(self.process.pid)
        self._sockets: list[socket.socket] = []

    def socket(self, kind: socket.SocketKind, port: int = 0) -> socket.socket:
        made = self.namespace.socket(kind)
        made.settimeout(WAIT_S)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((self.address if port else "", port))
        self._sockets.append(made)
        return made

    def close_sockets(self) -> None:
        while self._sockets:
            self._sockets.pop().close()

    def close(self) -> None:
        self.close_sockets()
        self.namespace.close()
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def started(need) -> Iterator[dict[str, Host]]:
    need("root", "ip", "nsenter", "unshare", "bridge")
    made = {name: Host(f"10.77.0.{number}") for number, name in enumerate(("a", "b", "c"), 1)}
    yield made
    for host in made.values():
        host.close()


@pytest.fixture
def hosts(started) -> Iterator[dict[str, Host]]:
    yield started
    for host in started.values():
        host.close_sockets()


@pytest.fixture
def bridge(hosts) -> Iterator[Bridge]:
    with contextlib.closing(Bridge("test")) as made:
        for name, host in hosts.items():
            made.attach(name, host.process.pid, host.address)
        yield made


def connect(server: Host, client: Host) -> tuple[socket.socket, socket.socket]:
    listener = server.socket(socket.SOCK_STREAM, 7000)
    listener.listen()
    calling = client.socket(socket.SOCK_STREAM)
    calling.connect((server.address, 7000))
    accepted, _ = listener.accept()
    accepted.settimeout(WAIT_S)
    listener.close()
    return accepted, calling


def passes(sender: socket.socket, receiver: socket.socket, data: bytes = MEGABYTE) -> bool:
    """Whether the data arrives unchanged."""
    thread = threading.Thread(target=sender.sendall, args=(data,))
    thread.start()
    got, size = hashlib.sha256(), len(data)
    while size > 0 and (part := receiver.recv(min(size, 1 << 16))):
        got.update(part)
        size -= len(part)
    thread.join()
    return got.digest() == hashlib.sha256(data).digest()


class Mail:
    """Datagrams between hosts. What `send` sends must not be there when a later datagram arrives."""

    def __init__(self, hosts: dict[str, Host]):
        self._hosts = hosts
        self._sockets = {name: host.socket(socket.SOCK_DGRAM, 7001) for name, host in hosts.items()}

    def send(self, sender: str, receiver: str, text: bytes = b"lost") -> None:
        self._sockets[sender].sendto(text, (self._hosts[receiver].address, 7001))

    def arrives(self, *pairs: str) -> bool:
        """Whether a datagram arrives for each pair of names, sender first, before any that `send` has sent."""
        for sender, receiver in pairs:
            self.send(sender, receiver, b"arrives")
            if self._sockets[receiver].recv(2000) != b"arrives":
                return False
        return True

    def all_until(self, receiver: str, last: bytes) -> list[bytes]:
        return list(iter(lambda: self._sockets[receiver].recv(100), last))


def devices(namespace: NetworkNamespace) -> list[str]:
    return [line.split()[0].split("@")[0] for line in namespace.run(["ip", "-brief", "link"]).splitlines()]


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_hosts_reach_each_other_at_their_addresses(bridge, hosts):
    assert devices(hosts["b"].namespace) == ["lo", "eth0"]
    assert not [name for _, name in socket.if_nameindex() if name.startswith("tf")], "seen in the machine's network"
    accepted, calling = connect(hosts["a"], hosts["b"])
    assert calling.getpeername()[0] == "10.77.0.1" and accepted.getpeername()[0] == "10.77.0.2"
    before, (_, received) = bridge.bytes("b"), bridge.bytes("a")
    assert passes(calling, accepted) and passes(accepted, calling)
    assert bridge.bytes("b")[0] - before[0] > len(MEGABYTE) and bridge.bytes("a")[1] - received > len(MEGABYTE)
    with bridge.socket() as outside, hosts["c"].socket(socket.SOCK_STREAM, 7002) as listener:
        listener.listen()
        outside.settimeout(WAIT_S)
        outside.connect((hosts["c"].address, 7002))
        listener.accept()[0].close()


def test_cuts_overlap_and_heal(bridge, hosts):
    mail = Mail(hosts)
    bridge.cut(["a", "b"])
    assert mail.arrives("ab")
    mail.send("c", "a")
    mail.send("a", "c")
    bridge.cut(["a"])
    mail.send("b", "a")
    bridge.heal(["a", "b"])
    mail.send("c", "a")
    assert mail.arrives("bc")
    bridge.heal(["a"])
    assert mail.arrives("ca", "ac", "ba")


def test_cut_of_one_direction(bridge, hosts):
    mail = Mail(hosts)
    bridge.cut(["a", "b"], "in")
    mail.send("c", "a")
    assert mail.arrives("ac", "ab", "ba")
    bridge.cut(["a"], "out")
    mail.send("a", "c")
    bridge.heal(["a", "b"], "in")
    mail.send("a", "b")
    assert mail.arrives("ca", "ba")
    bridge.heal(["a"], "out")
    assert mail.arrives("ac", "ab")


def test_connection_outlives_a_cut(bridge, hosts):
    accepted, calling = connect(hosts["a"], hosts["b"])
    link = hosts["b"].namespace.run(["ip", "-json", "link", "show", "eth0"])
    bridge.cut(["b"])
    calling.sendall(b"sent while cut off")
    assert hosts["b"].namespace.run(["ip", "-json", "link", "show", "eth0"]) == link, "a link went down"
    bridge.heal(["b"])
    assert passes(accepted, calling) and accepted.recv(100) == b"sent while cut off"


def test_bandwidth_is_limited_at_both_ends(bridge, hosts, need):
    need("tc", "bandwidth limit")

    def shown() -> list[str]:
        return [one.run(["tc", "qdisc", "show"]) for one in (hosts["a"].namespace, bridge._switch)]

    for rate in (50, 40):
        bridge.limit("a", rate * 1e6)
        assert all(text.count(f"rate {rate}Mbit") == 1 for text in shown())
    accepted, calling = connect(hosts["a"], hosts["b"])
    assert passes(calling, accepted) and passes(accepted, calling)
    bridge.limit("a", None)
    assert "tbf" not in "".join(shown())


@pytest.mark.parametrize("ends", ["ab", "ba"])
def test_share_of_packets_is_lost(bridge, hosts, need, ends):
    need("nft", "packet loss")
    mail = Mail(hosts)
    bridge.lose("a", 1.0)
    mail.send(*ends)
    assert mail.arrives("bc")
    bridge.lose("a", 0.5)
    for number in range(300):
        mail.send(*ends, b"%d" % number)
    bridge.lose("a", None)
    mail.send(*ends, b"last")
    arrived = mail.all_until(ends[1], b"last")
    assert 0 < len(arrived) < 300 and arrived == sorted(arrived, key=int)


def test_delay_applies_in_each_direction(bridge, hosts):
    mail = Mail(hosts)
    for delay_s, pairs in ((0.05, ("ab", "ba")), (0.05, ("ba", "ab")), (0.2, ("ab",))):
        bridge.delay("a", delay_s)
        began = time.monotonic()
        assert mail.arrives(*pairs)
        assert time.monotonic() - began >= delay_s * len(pairs)
    bridge.cut(["a"])
    mail.send("a", "b")
    bridge.heal(["a"])
    bridge.delay("a", 0.3)
    mail.send("a", "b", b"1")
    bridge.delay("a", 0.001)
    mail.send("a", "b", b"2")
    assert mail.all_until("b", b"2") == [b"1"], "a shorter delay changed the order"
    bridge.delay("a", None)
    assert mail.arrives("ab") and "test1a" not in " ".join(devices(bridge._switch))
    assert len(psutil.Process().children()) == len(hosts), "the program that delays packets still runs"


def test_connection_survives_delay_limit_and_loss(bridge, hosts, need):
    need("tc", "bandwidth limit")
    changes = [lambda: bridge.delay("a", 0.002), lambda: bridge.limit("a", 2e8), lambda: bridge.delay("b", 0.001)]
    ends = [lambda: bridge.delay("a", None), lambda: bridge.limit("a", None)]
    with contextlib.suppress(pytest.skip.Exception):
        need("nft", "packet loss")
        changes, ends = [*changes, lambda: bridge.lose("a", 0.002)], [*ends, lambda: bridge.lose("a", None)]
    accepted, calling = connect(hosts["a"], hosts["b"])
    for change in (*changes, *ends):
        change()
        assert passes(calling, accepted) and passes(accepted, calling)


def test_end_of_the_delay_program_is_reported(bridge, hosts):
    bridge.delay("a", 0.001)
    (program,) = [child for child in psutil.Process().children() if child.cmdline()[-2:] == ["tftest1", "tftest1b"]]
    program.kill()
    with pytest.raises(TfhetError, match="-9"):
        wait_until(lambda: bridge.delay("a", 0.002) is not None)
    bridge.delay("a", None)
    assert Mail(hosts).arrives("ab")


def test_host_without_processes_takes_faults(need):
    need("root", "ip", "nsenter", "unshare", "bridge", "tc", "bandwidth limit")
    with contextlib.closing(Host("10.77.0.1")) as host, contextlib.closing(Bridge("gone")) as bridge:
        bridge.attach("a", host.process.pid, host.address)
        host.process.kill()
        host.process.wait()
        for rate in (1e6, None):
            bridge.limit("a", rate)
        bridge.cut(["a"])
        bridge.heal(["a"])
        bridge.cut(["a"])
        bridge.close()
        bridge.heal(["a"])
        with pytest.raises(UsageError):
            bridge.limit("a", 1e6)
        with pytest.raises(TfhetError):
            bridge._switch.run(["ip", "link"])


def test_close_removes_all_devices(bridge, hosts):
    bridge.delay("a", 0.001)
    bridge.close()
    bridge.close()
    assert [devices(host.namespace) for host in hosts.values()] == [["lo"]] * 3
    assert len(psutil.Process().children()) == len(hosts)


CREATOR = """
import sys
from tfhet.container import bridge
network = bridge.Bridge("killed")
network.attach("a", int(sys.argv[1]), "10.77.0.1")
network.delay("a", 0.001)
print("ready", flush=True)
sys.stdin.read()
"""


def test_nothing_is_left_of_a_killed_creator(hosts, repository: Path):
    words = [sys.executable, "-c", CREATOR, str(hosts["a"].process.pid)]
    creator = subprocess.Popen(words, cwd=repository, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert creator.stdout and creator.stdout.readline() == b"ready\n"
        (program,) = psutil.Process(creator.pid).children()
    finally:
        creator.send_signal(signal.SIGKILL)
        creator.communicate()
    wait_until(lambda: devices(hosts["a"].namespace) == ["lo"])
    wait_until(lambda: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda bridge: bridge.attach("x", os.getpid(), "10.77.0.9"),
        lambda bridge: bridge.attach("x", 2**22 + 1, "10.77.0.9"),
        lambda bridge: bridge.limit("x", 1e6),
        lambda bridge: bridge.limit("a", 0.0),
        lambda bridge: bridge.cut(["a", "x"]),
        lambda bridge: bridge.bytes("x"),
    ],
)
def test_wrong_use_changes_nothing(bridge, hosts, wrong):
    with pytest.raises(UsageError):
        wrong(bridge)
    assert Mail(hosts).arrives("ab")


def test_failed_command_is_named(bridge, hosts, monkeypatch):
    with pytest.raises(TfhetError, match=r"ip -batch.*File exists.*: link add \S+ .*peer name eth0"):
        bridge.attach("x", hosts["a"].process.pid, "10.77.0.9")
    assert Mail(hosts).arrives("ab")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TfhetError, match="nsenter"):
        bridge._switch.run(["ip", "link"])


@pytest.mark.parametrize("bits_per_s", [1e4, 2e7, 1e9, 1e11])
def test_burst_and_queue_hold_whole_frames(bits_per_s):
    words = limiting("eth0", bits_per_s).split()
    burst, queue = (int(words[words.index(word) + 1]) for word in ("burst", "limit"))
    assert BURST_BYTES <= burst < queue and queue > 3 * (64 << 10)


@pytest.mark.parametrize("bits_per_s", [0.0, 1e3, 1e12, float("nan"), -1e6])
def test_impossible_bandwidth_is_refused(bits_per_s):
    with pytest.raises(UsageError):
        limiting("eth0", bits_per_s)
