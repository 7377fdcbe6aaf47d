"""A simulated host gets its CPU quota and its bandwidth, by the kernel's own counters: a busy machine changes none."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tfhet.container import kernel, sweeper
from tfhet.container.bridge import Bridge
from tfhet.container.cable import BURST_BYTES
from tfhet.container.cgroup import Cgroup, Limits
from tfhet.container.netns import NetworkNamespace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

CPUS, PERIODS = 0.1, 300
BITS_PER_S, BYTES = 20e6, 4_000_000
BEGIN = "import socket; print('isolated', flush=True); input()"
HOSTS = {
    "receiver": f"{BEGIN}; server = socket.create_server(('', 7000)); print('ready', flush=True)\n"
    "peer, _ = server.accept()\nwhile peer.recv(65536): pass",
    "sender": f"{BEGIN}; peer = socket.create_connection(('10.78.0.2', 7000), 60); print('ready', flush=True)\n"
    "while True: peer.sendall(bytes(65536))",
}
"""Programs of two hosts, each of which continues when its network is there."""


@pytest.fixture
def tag() -> Iterator[str]:
    if lacking := kernel.missing(kernel.LIMIT):
        pytest.skip("; ".join(feature.name for feature in lacking))
    with sweeper.claim() as owner:
        yield owner.tag


@contextlib.contextmanager
def running(code: str, *before: str) -> Iterator[subprocess.Popen[str]]:
    words, pipe = [*before, sys.executable, "-c", code], subprocess.PIPE
    process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    until_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until_s, f"waited {limit_s:g} s in vain"
        time.sleep(0.05)


def test_host_gets_its_cpu_quota(tag: str) -> None:
    with contextlib.ExitStack() as stack:
        group, limits = Cgroup.create(f"tfhet-{tag}-busy"), Limits(CPUS)
        stack.callback(group.remove)
        assert group.limit(limits) == ()
        (file,) = {path for folder in group.folders for path in folder.glob("cpu.stat") if "nr_p" in path.read_text()}
        for _ in range(4):
            group.add(stack.enter_context(running("while True: pass")).pid)

        def counters() -> dict[str, int]:
            return {name: int(count) for name, count in map(str.split, file.read_text().splitlines())}

        before, used_s = counters(), group.cpu_s()
        wait_until(lambda: counters()["nr_periods"] - before["nr_periods"] > PERIODS)
        used_s, after = group.cpu_s() - used_s, counters()
        periods, throttled = (after[name] - before[name] for name in ("nr_periods", "nr_throttled"))
    quota_us, _ = limits.quota()
    assert throttled > 0
    # It was throttled in a period only after it had used its quota of that period.
    assert 0.75 * throttled * quota_us <= 1e6 * used_s <= 1.25 * (periods + 1) * quota_us


@pytest.mark.parametrize("limited", HOSTS)
def test_host_gets_its_bandwidth(tag: str, limited: str) -> None:
    with contextlib.ExitStack() as stack:
        bridge = stack.enter_context(contextlib.closing(Bridge(tag, "10.78.0.0/24")))
        processes = {}
        for number, (name, code) in enumerate(HOSTS.items(), 2):
            processes[name] = stack.enter_context(running(code, "unshare", "--net"))
            assert processes[name].stdout.readline() == "isolated\n"
            bridge.attach(name, processes[name].pid, f"10.78.0.{number}")
        bridge.limit(limited, BITS_PER_S)
        for process in processes.values():
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ready\n"

        def received() -> int:
            return bridge.bytes("receiver")[1]

        begun_s, before = time.monotonic(), received()
        wait_until(lambda: received() - before > BYTES)
        count, seconds = received() - before, time.monotonic() - begun_s
        own = stack.enter_context(contextlib.closing(NetworkNamespace.of(processes[limited].pid)))
        # The sender's end of a cable holds back what it sends, the switch's end what others send to the receiver.
        shown = (own if limited == "sender" else bridge._switch).run(["tc", "-json", "-statistics", "qdisc"])
    assert [qdisc["overlimits"] > 0 for qdisc in json.loads(shown) if qdisc["kind"] == "tbf"] == [True]
    assert count <= 1.25 * (BITS_PER_S / 8 * seconds + BURST_BYTES)
