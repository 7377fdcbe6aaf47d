"""Needs root: without it, or without a tool or a part of the kernel, tests are skipped and say what is missing."""

from __future__ import annotations

import contextlib
import hashlib
import json
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
from tfhet.container.cable import hardware
from tfhet.container.netns import NetworkNamespace
from tfhet.errors import TfhetError, UsageError

pytestmark = pytest.mark.timeout(120)
WAIT_S = 30.0
HOSTS = ("algo-1", "algo-2", "algo-3")
MEGABYTE = os.urandom(1 << 20)


@pytest.fixture(scope="module")
def features() -> dict[str, kernel.KernelFeature]:
    return {feature.name: feature for feature in kernel.probe()}


@pytest.fixture
def need(features) -> Callable[..., None]:
    def needed(*names: str) -> None:
        lacking = [f"{name}: {features[name].detail}" for name in names if not features[name].there]
        if lacking:
            pytest.skip("; ".join(lacking))

    return needed


class Host:
    """A process with a network namespace of its own, and sockets in it."""

    def __init__(self, name: str, address: str):
        self.name, self.address = name, address
        # cat answers when it runs, and then the namespace is there
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
        made.bind((self.address if port else "", port))
        self._sockets.append(made)
        return made

    def close(self) -> None:
        for each in self._sockets:
            each.close()
        self.namespace.close()
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def hosts(need) -> Iterator[dict[str, Host]]:
    need("root", "ip", "nsenter", "unshare", "bridge")
    made = {name: Host(name, f"10.77.0.{number}") for number, name in enumerate(HOSTS, 1)}
    yield made
    for host in made.values():
        host.close()


@pytest.fixture
def bridge(hosts) -> Iterator[Bridge]:
    with contextlib.closing(Bridge("test")) as made:
        for host in hosts.values():
            made.attach(host.name, host.process.pid, host.address)
        yield made


@pytest.fixture
def line(need) -> None:
    """Requires what a delay needs."""
    need("C++ compiler")


def connect(server: Host, client: Host) -> tuple[socket.socket, socket.socket]:
    listener = server.socket(socket.SOCK_STREAM, 7000)
    listener.listen()
    calling = client.socket(socket.SOCK_STREAM)
    calling.connect((server.address, 7000))
    taken, _ = listener.accept()
    taken.settimeout(WAIT_S)
    listener.close()
    return taken, calling


def read(sock: socket.socket, size: int) -> bytes:
    parts = []
    while size > 0 and (part := sock.recv(min(size, 1 << 16))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def passes(sender: socket.socket, receiver: socket.socket, data: bytes) -> bool:
    """Whether it arrives as it was."""
    thread = threading.Thread(target=sender.sendall, args=(data,))
    thread.start()
    got = read(receiver, len(data))
    thread.join()
    return hashlib.sha256(got).digest() == hashlib.sha256(data).digest()


class Post:
    """Datagrams between hosts. What `lost` sends must not be there when what is sent afterwards arrives."""

    def __init__(self, hosts: dict[str, Host]):
        self._hosts = hosts
        self._sockets = {name: host.socket(socket.SOCK_DGRAM, 7001) for name, host in hosts.items()}

    def send(self, sender: str, receiver: str, text: bytes) -> None:
        self._sockets[sender].sendto(text, (self._hosts[receiver].address, 7001))

    def arrives(self, sender: str, receiver: str, text: bytes = b"arrives") -> bool:
        self.send(sender, receiver, text)
        return self._sockets[receiver].recv(100) == text

    def all_until(self, receiver: str, last: bytes) -> list[bytes]:
        got = []
        while (text := self._sockets[receiver].recv(100)) != last:
            got.append(text)
        return got


def qdiscs(namespace: NetworkNamespace) -> str:
    return namespace.run(["tc", "qdisc", "show"])


def devices(namespace: NetworkNamespace) -> list[str]:
    return [line.split()[0].split("@")[0] for line in namespace.run(["ip", "-brief", "link"]).splitlines()]


def sent_bytes(bridge: Bridge, device: str) -> int:
    shown = bridge._switch.run(["ip", "-json", "-statistics", "link", "show", "dev", device])
    return json.loads(shown)[0]["stats64"]["tx"]["bytes"]


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "never came to be"
        time.sleep(0.02)


def test_hosts_reach_each_other_by_their_addresses(bridge, hosts):
    taken, calling = connect(hosts["algo-1"], hosts["algo-2"])
    assert calling.getpeername()[0] == "10.77.0.1" and taken.getpeername()[0] == "10.77.0.2"
    assert passes(calling, taken, MEGABYTE) and passes(taken, calling, MEGABYTE)


def test_a_host_has_eth0_and_lo_up_and_nothing_else(bridge, hosts):
    shown = hosts["algo-2"].namespace.run(["ip", "-brief", "address"])
    assert devices(hosts["algo-2"].namespace) == ["lo", "eth0"]
    assert "10.77.0.2/24" in shown and "127.0.0.1/8" in shown


def test_nothing_of_it_is_seen_in_the_machines_own_network(bridge, hosts):
    assert not [name for _, name in socket.if_nameindex() if name.startswith("tf")]


def test_hosts_that_are_cut_off_see_each_other_and_nobody_else(bridge, hosts):
    post = Post(hosts)
    bridge.cut(["algo-1", "algo-2"])
    assert post.arrives("algo-1", "algo-2")
    post.send("algo-3", "algo-1", b"lost")
    post.send("algo-1", "algo-3", b"lost")
    bridge.cut(["algo-1"])
    post.send("algo-2", "algo-1", b"lost")
    bridge.heal(["algo-1", "algo-2"])
    post.send("algo-3", "algo-1", b"lost")
    assert post.arrives("algo-2", "algo-3")
    bridge.heal(["algo-1"])
    assert post.arrives("algo-3", "algo-1") and post.arrives("algo-1", "algo-3") and post.arrives("algo-2", "algo-1")


def test_a_cut_of_one_way_holds_what_hosts_hear_or_what_they_send(bridge, hosts, need):
    need("nft", "packet loss")
    post = Post(hosts)
    bridge.cut(["algo-1", "algo-2"], "in")
    post.send("algo-3", "algo-1", b"lost")
    assert post.arrives("algo-1", "algo-3") and post.arrives("algo-1", "algo-2") and post.arrives("algo-2", "algo-1")
    bridge.cut(["algo-1"], "out")
    post.send("algo-1", "algo-3", b"lost")
    bridge.heal(["algo-1", "algo-2"], "in")
    post.send("algo-1", "algo-2", b"lost")
    assert post.arrives("algo-3", "algo-1") and post.arrives("algo-2", "algo-1")
    bridge.heal(["algo-1"], "out")
    assert post.arrives("algo-1", "algo-3") and post.arrives("algo-1", "algo-2")


def test_a_connection_outlives_a_cut(bridge, hosts):
    taken, calling = connect(hosts["algo-1"], hosts["algo-2"])
    bridge.cut(["algo-2"])
    calling.sendall(b"sent while cut off")
    bridge.heal(["algo-2"])
    assert read(taken, 18) == b"sent while cut off"
    assert passes(taken, calling, MEGABYTE)


def test_links_stay_up_while_hosts_are_cut_off(bridge, hosts):
    before = hosts["algo-1"].namespace.run(["ip", "-json", "link", "show", "eth0"])
    bridge.cut(["algo-1"])
    bridge.heal(["algo-1"])
    assert hosts["algo-1"].namespace.run(["ip", "-json", "link", "show", "eth0"]) == before
    carrier = hosts["algo-1"].namespace.run(["ip", "-json", "-details", "link", "show", "eth0"])
    assert "NO-CARRIER" not in carrier


def test_a_limit_is_a_token_bucket_at_both_ends_and_traffic_passes(bridge, hosts, need):
    need("tc", "bandwidth limit")
    bridge.limit("algo-1", 5e7)
    for namespace in (hosts["algo-1"].namespace, bridge._switch):
        assert qdiscs(namespace).count("rate 50Mbit") == 1
    taken, calling = connect(hosts["algo-1"], hosts["algo-2"])
    assert passes(calling, taken, MEGABYTE) and passes(taken, calling, MEGABYTE)
    bridge.limit("algo-1", 4e7)
    assert "rate 40Mbit" in qdiscs(hosts["algo-1"].namespace)
    bridge.limit("algo-1", None)
    assert "tbf" not in qdiscs(hosts["algo-1"].namespace) + qdiscs(bridge._switch)


def test_all_packets_are_lost_in_both_directions_until_none_is(bridge, hosts, need):
    need("nft", "packet loss")
    post = Post(hosts)
    bridge.lose("algo-1", 1.0)
    post.send("algo-1", "algo-2", b"lost")
    post.send("algo-2", "algo-1", b"lost")
    assert post.arrives("algo-2", "algo-3")
    bridge.lose("algo-1", None)
    assert post.arrives("algo-1", "algo-2") and post.arrives("algo-2", "algo-1")


@pytest.mark.parametrize("ends", [("algo-1", "algo-2"), ("algo-2", "algo-1")], ids=["from it", "to it"])
def test_a_share_of_the_packets_is_lost_in_each_direction(bridge, hosts, need, ends):
    need("nft", "packet loss")
    post = Post(hosts)
    bridge.lose("algo-1", 0.5)
    for number in range(300):
        post.send(*ends, b"%d" % number)
    bridge.lose("algo-1", None)
    post.send(*ends, b"last")
    arrived = post.all_until(ends[1], b"last")
    assert 0 < len(arrived) < 300
    assert arrived == sorted(arrived, key=int)


def test_a_connection_gets_through_lost_packets(bridge, hosts, need):
    need("nft", "packet loss")
    taken, calling = connect(hosts["algo-1"], hosts["algo-2"])
    bridge.lose("algo-1", 0.01)
    assert passes(calling, taken, MEGABYTE) and passes(taken, calling, MEGABYTE)


def test_a_delay_is_that_of_each_direction(bridge, hosts, line):
    post = Post(hosts)
    bridge.delay("algo-1", 0.05)
    for there, back in (("algo-1", "algo-2"), ("algo-2", "algo-1")):
        began = time.monotonic()
        assert post.arrives(there, back) and post.arrives(back, there)
        assert time.monotonic() - began >= 0.1
    bridge.delay("algo-1", 0.2)
    began = time.monotonic()
    assert post.arrives("algo-1", "algo-2")
    assert time.monotonic() - began >= 0.2
    bridge.delay("algo-1", None)
    assert post.arrives("algo-1", "algo-2")


def test_packets_keep_their_order_when_a_delay_becomes_shorter(bridge, hosts, line):
    post = Post(hosts)
    bridge.delay("algo-1", 0.3)
    post.send("algo-1", "algo-2", b"1")
    bridge.delay("algo-1", 0.001)
    post.send("algo-1", "algo-2", b"2")
    assert post.all_until("algo-2", b"2") == [b"1"]


def test_connections_work_through_delay_limit_and_loss_together(bridge, hosts, line, need):
    need("tc", "bandwidth limit", "nft", "packet loss")
    taken, calling = connect(hosts["algo-1"], hosts["algo-2"])
    for change in (
        lambda: bridge.delay("algo-1", 0.002),
        lambda: bridge.limit("algo-1", 2e8),
        lambda: bridge.lose("algo-1", 0.002),
        lambda: bridge.delay("algo-2", 0.001),
        lambda: bridge.delay("algo-1", None),
        lambda: bridge.limit("algo-1", None),
        lambda: bridge.lose("algo-1", None),
    ):
        change()
        assert passes(calling, taken, MEGABYTE) and passes(taken, calling, MEGABYTE)


def test_a_delayed_host_is_cut_off_and_loses_packets_like_others(bridge, hosts, line, need):
    need("nft", "packet loss")
    post, lost = Post(hosts), bytes(1000)  # larger than what kernels announce of themselves
    bridge.delay("algo-1", 0.001)
    assert post.arrives("algo-1", "algo-2") and post.arrives("algo-2", "algo-1")
    out = sent_bytes(bridge, "tftest1b")
    bridge.cut(["algo-1"])
    post.send("algo-1", "algo-2", lost)
    post.send("algo-2", "algo-1", lost)
    wait_until(lambda: sent_bytes(bridge, "tftest1b") >= out + len(lost))
    bridge.heal(["algo-1"])
    assert post.arrives("algo-1", "algo-2") and post.arrives("algo-2", "algo-1")
    bridge.lose("algo-1", 1.0)
    out, back = sent_bytes(bridge, "tftest1b"), sent_bytes(bridge, "tftest1")
    post.send("algo-1", "algo-2", lost)
    post.send("algo-2", "algo-1", lost)
    wait_until(
        lambda: sent_bytes(bridge, "tftest1b") >= out + len(lost) and sent_bytes(bridge, "tftest1") >= back + len(lost)
    )
    bridge.lose("algo-1", None)
    assert post.arrives("algo-1", "algo-2") and post.arrives("algo-2", "algo-1")


def test_a_delay_line_ends_with_the_delay(bridge, hosts, line):
    bridge.delay("algo-1", 0.001)
    assert len(psutil.Process().children()) == 1 + len(hosts)
    bridge.delay("algo-1", None)
    assert len(psutil.Process().children()) == len(hosts)
    assert "test1a" not in " ".join(devices(bridge._switch))
    assert Post(hosts).arrives("algo-1", "algo-2")


def test_a_delay_line_that_is_gone_is_said(bridge, hosts, line):
    bridge.delay("algo-1", 0.001)
    (program,) = [child for child in psutil.Process().children() if child.name().startswith("delay")]
    program.kill()
    with pytest.raises(TfhetError, match="delay line between tftest1 and tftest1b has ended by itself, with code -9"):
        wait_until(lambda: bridge.delay("algo-1", 0.002) is not None)
    bridge.delay("algo-1", None)
    assert Post(hosts).arrives("algo-1", "algo-2")


def test_what_a_host_sent_and_received_is_counted(bridge, hosts):
    post = Post(hosts)
    before = bridge.bytes("algo-1")
    for _ in range(10):
        assert post.arrives("algo-1", "algo-2", b"x" * 100)
    after = bridge.bytes("algo-1")
    sent, (_, received) = after[0] - before[0], bridge.bytes("algo-2")
    assert sent >= 10 * (100 + 8 + 20 + 14)
    assert received >= 10 * (100 + 8 + 20 + 14)


def test_a_stranger_reaches_the_hosts(bridge, hosts):
    listener = hosts["algo-1"].socket(socket.SOCK_STREAM, 7000)
    listener.listen()
    with bridge.socket() as stranger:
        stranger.settimeout(WAIT_S)
        stranger.connect((hosts["algo-1"].address, 7000))
        taken, peer = listener.accept()
        assert peer[0] == "10.77.0.254"
        taken.close()


def test_faults_of_a_host_whose_processes_are_gone_do_no_harm(bridge, hosts, need):
    need("tc", "bandwidth limit", "nft", "packet loss")
    hosts["algo-1"].process.kill()
    hosts["algo-1"].process.wait()
    bridge.limit("algo-1", 1e6)
    bridge.lose("algo-1", 0.1)
    bridge.cut(["algo-1"])
    bridge.heal(["algo-1"])
    bridge.limit("algo-1", None)
    bridge.lose("algo-1", None)
    assert Post({name: hosts[name] for name in ("algo-2", "algo-3")}).arrives("algo-2", "algo-3")


def test_a_cut_can_be_healed_when_all_is_over(bridge):
    bridge.cut(["algo-1"])
    bridge.close()
    bridge.heal(["algo-1"])
    with pytest.raises(UsageError, match="algo-1 is not attached"):
        bridge.limit("algo-1", 1e6)
    with pytest.raises(TfhetError, match="was closed"):
        bridge._switch.run(["ip", "link"])


def test_close_takes_all_of_it_away(bridge, hosts, line):
    bridge.delay("algo-1", 0.001)
    bridge.cut(["algo-2"])
    bridge.close()
    bridge.close()
    for host in hosts.values():
        assert devices(host.namespace) == ["lo"]
    assert not [child for child in psutil.Process().children() if child.name().startswith("delay")]


CREATOR = """
import sys
from tfhet.container import bridge
network = bridge.Bridge("killed")
network.attach("algo-1", int(sys.argv[1]), "10.77.0.1")
network.delay("algo-1", 0.001)
print("ready", flush=True)
sys.stdin.read()
"""


def test_nothing_is_left_when_its_process_is_killed(hosts, need, repository: Path):
    need("C++ compiler")
    host = hosts["algo-1"]
    creator = subprocess.Popen(
        [sys.executable, "-c", CREATOR, str(host.process.pid)],
        cwd=repository,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert creator.stdout and creator.stdout.readline() == b"ready\n"
        (program,) = psutil.Process(creator.pid).children()
        assert devices(host.namespace) == ["lo", "eth0"]
    finally:
        creator.send_signal(signal.SIGKILL)
        creator.communicate()
    wait_until(lambda: devices(host.namespace) == ["lo"])
    wait_until(lambda: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE)


def test_every_address_has_a_hardware_address_of_its_own():
    from ipaddress import IPv4Network

    made = {hardware(address) for address in IPv4Network("10.77.0.0/24")}
    assert len(made) == 256
    assert all(int(each.split(":")[0], 16) & 3 == 2 for each in made), "not locally administered, or for a group"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda bridge, pid: bridge.attach("x", os.getpid(), "10.77.0.9"), "no network namespace of its own"),
        (lambda bridge, pid: bridge.attach("x", 2**22 + 1, "10.77.0.9"), "No such file"),
        (
            lambda bridge, pid: bridge.limit("x", 1e6),
            "x is not attached to the network; attached: algo-1, algo-2, algo",
        ),
        (lambda bridge, pid: bridge.limit("algo-1", 0.0), "give 10000 to 4e"),
        (lambda bridge, pid: bridge.cut(["algo-1", "x"]), "x is not attached"),
        (lambda bridge, pid: bridge.bytes("x"), "x is not attached"),
    ],
)
def test_wrong_use_is_said(bridge, hosts, wrong, message):
    with pytest.raises(UsageError, match=message):
        wrong(bridge, hosts["algo-1"].process.pid)
    assert Post(hosts).arrives("algo-1", "algo-2"), "and changes nothing"


def test_a_command_that_fails_is_shown_with_its_message_and_line(bridge, hosts):
    message = r"`ip -batch -` failed: .*File exists.*: link add \S+ .*peer name eth0"
    with pytest.raises(TfhetError, match=message):
        bridge.attach("x", hosts["algo-1"].process.pid, "10.77.0.9")
    assert Post(hosts).arrives("algo-1", "algo-2")


def test_a_tool_that_is_not_installed_is_named(bridge, monkeypatch):
    with pytest.raises(TfhetError, match="`no-such-tool` failed: .*No such file"):
        bridge._switch.run(["no-such-tool"])
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TfhetError, match="`ip link` cannot be run: .*'nsenter'"):
        bridge._switch.run(["ip", "link"])
