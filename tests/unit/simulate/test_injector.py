from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tfhet.cluster import HostPaths, Ports
from tfhet.errors import UsageError
from tfhet.process import Child
from tfhet.simulate import Fault, injector, other_jobs
from tfhet.simulate.fault import MOMENTS
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.injector import Injector
from tfhet.simulate.targets import Population, Targets

pytestmark = pytest.mark.timeout(60)
LIMIT_S = 30.0

# A launcher: starts its arguments, pairs of a kind and code, and prints how each of them ended.
LAUNCHER = """
import signal, subprocess, sys, threading
signal.signal(signal.SIGTERM, lambda *_: (print("told", flush=True), [c.kill() for c in children], sys.exit(0)))
children = [subprocess.Popen([sys.executable, "-u", "-c", code, "tfhet.planes.tf_service.server", kind])
            for kind, code in zip(sys.argv[1::2], sys.argv[2::2])]
threads = [threading.Thread(target=lambda c: print("ended", c.wait(), flush=True), args=(c,)) for c in children]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
UP = "import os, time; os.write(1, b'up\\n')"  # in one write: two processes share the pipe
IDLES = f"{UP}; time.sleep(60)"
GROWS = f"""{UP}
kept = []
while True:
    time.sleep(0.05)
    kept.append(bytearray(1 << 26))
"""


def hosts(data: int = 1, dnn: int = 2, ranks: int = 2, workers: int = 1) -> list[SimulatedHost]:
    made = []
    for index in range(data + dnn):
        group = "data" if index < data else "dnn"
        own = tuple(range(6001, 6001 + (workers if group == "data" else 0)))
        ports, paths = Ports(16000, {"dispatcher": (6000,), "workers": own}), HostPaths(Path("."))
        name, address, shared = f"algo-{index + 1}", f"127.0.0.{index + 2}", ("dispatcher",)
        made.append(SimulatedHost(name, group, "ml", address, ports, ranks, paths, shared, bool(own), role=group))
    return made


class FakeBackend:
    """A backend of process hosts that records its calls."""

    starts_launchers = True
    cuts_batches = False

    def __init__(self):
        self.done: list[tuple] = []
        self.network = self

    def cut(self, names: Collection[str], way: str = "") -> None:
        self.done.append(("cut", *names, way))

    def heal(self, names: Collection[str], way: str = "") -> None:
        self.done.append(("heal", *names, way))

    async def impair(self, kind: str, host: str, amount: float | None) -> None:
        self.done.append((kind, host, amount))

    def restore(self, kind: str, host: str) -> None:
        self.done.append(("restored", kind, host))


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("kill:rank=4", "0, 1, 2, 3"),
        ("kill:host@data-2", "data-1, dnn, dnn-1, dnn-2"),
        ("partition:algo-9", "algo-1, algo-2"),
        ("delay=50ms:cpu_group", "dnn-1, dnn-2"),
        ("kill:worker@dnn-1", "algo-1"),
        ("kill:dispatcher@data-1", "dnn-1"),
        ("second-job:dnn-2", "dnn-1"),
        ("half-checkpoint:data-1", "dnn-1"),
        ("partition:dnn-1", "dnn-1"),
        ("partition-out:dnn-1", "dnn-1"),
    ],
)
def test_missing_target_is_refused(text: str, known: str):
    cluster = hosts(data=0, dnn=1) if text.startswith("partition") and "dnn" in text else hosts()
    with pytest.raises(UsageError, match=known):
        Targets(cluster, "dnn").check(Fault.parse(text))


@dataclass
class Injected:
    """The lines of the launchers, the reports of the injector, and the process ids of the launchers."""

    output: list[str]
    reports: list[str]
    pids: list[int]


def injected(fault: str, *launchers: Sequence[str], until: str, backend: FakeBackend | None = None) -> Injected:
    """Injects a fault into `launchers` of algo-1 (words for LAUNCHER) until a launcher or the injector prints
    `until`."""

    async def run() -> Injected:
        output: list[str] = []
        reports: list[str] = []
        children: dict[str, Child] = {}
        wanted = sum(len(words) // 2 for words in launchers)
        cluster = [*hosts(data=0, dnn=1, ranks=len(launchers), workers=0), hosts()[1]]
        targets, all_up = Targets(cluster, "dnn"), lambda _: output.count("up") == wanted
        doing = Injector([Fault.parse(fault)], targets, backend or FakeBackend(), children, all_up, reports.append)
        for rank, words in enumerate(launchers):
            command = [sys.executable, "-c", LAUNCHER, *words]
            children[f"algo-1/{rank}"] = await Child.start("l", command, env=os.environ, on_line=output.append)
        injecting = asyncio.create_task(doing.run())
        try:
            async with asyncio.timeout(LIMIT_S):
                while not any(until in line for line in [*output, *reports]):
                    await asyncio.sleep(0.02)
        finally:
            injecting.cancel()
            await asyncio.gather(injecting, return_exceptions=True)
            await asyncio.gather(*(child.stop(5.0) for child in children.values()))
        return Injected(output, reports, [child.pid for child in children.values()])

    return asyncio.run(run())


def test_process_without_memory_dies():
    done = injected("oom:rank=0", ("script", GROWS), until="ended 1")
    assert any("MemoryError" in line for line in done.output) and "MiB" in done.reports[0]


def test_process_that_needs_no_memory_is_killed(monkeypatch):
    monkeypatch.setattr(injector, "STARVED_S", 0.3)
    done = injected("oom:worker", ("worker", IDLES), until=f"ended {-signal.SIGKILL}")
    assert len(done.reports) == 2 and "SIGKILL" in done.reports[1]


def test_sigterm_reaches_every_launcher_of_a_host():
    both = (("script", IDLES), ("script", IDLES))
    done = injected("sigterm:host@algo-1", *both, until="told")
    (report,) = done.reports
    assert all(str(pid) in report for pid in done.pids) and "ended -15" not in done.output


@pytest.mark.parametrize("direction", ["", "in", "out"])
def test_workers_of_a_partitioned_host_are_frozen(direction: str):
    kind, backend = f"partition-{direction}".rstrip("-"), FakeBackend()
    watched = f"""{UP}
while True:
    before = time.monotonic()
    time.sleep(0.05)
    if time.monotonic() - before > 0.4:
        print('stood still', flush=True)
"""
    words = ("worker", watched, "worker", watched)
    done = injected(f"{kind}:algo-1:for=0.6", words, until="stood still", backend=backend)
    assert len(done.reports) == 1
    assert backend.done == [("cut", "algo-1", direction), ("heal", "algo-1", direction)]


def test_stalled_output_is_read_later():
    prints = f"{UP}\nfor n in range(3): time.sleep(0.1), print('more', n, flush=True)"
    done = injected("stall:algo-1:for=0.6", ("script", prints), until="more 2")
    assert done.reports == ["fault stall:algo-1:for=0.6"]


def fake_run(fault: str, has_come: Callable[[str], bool] = lambda _: True) -> tuple[FakeBackend, list[str]]:
    """The backend's calls and the reports of a fault in a cluster without processes."""
    backend, reports = FakeBackend(), list[str]()
    doing = Injector([Fault.parse(fault)], Targets(hosts(), "dnn"), backend, {}, has_come, reports.append)
    asyncio.run(asyncio.wait_for(doing.run(), LIMIT_S))
    return backend, reports


@pytest.mark.parametrize("moment", MOMENTS)
def test_fault_waits_for_its_moment(moment: str):
    asked: list[str] = []

    def has_come(which: str) -> bool:
        asked.append(which)
        return len(asked) > 1

    backend, _ = fake_run(f"clock=+5s:data-1:from={moment}", has_come)
    assert asked == [moment, moment] and backend.done == [("clock", "algo-1", 5.0)]


@pytest.mark.parametrize(
    ("fault", "kind", "amount"),
    [
        ("loss=1%", "loss", 0.01),
        ("delay=50ms", "delay", 0.05),
        ("rate=1mbit", "rate", 1e6),
        ("slow-disk", "slow-disk", None),
        ("slow-dns=2s", "slow-dns", 2.0),
    ],
)
@pytest.mark.parametrize("lasts", [True, False])
def test_impairment_ends_with_the_fault(fault: str, kind: str, amount: float | None, lasts: bool):
    backend, reports = fake_run(f"{fault}:data-1" + ":for=0.05" * lasts)
    assert backend.done == [(kind, "algo-1", amount), ("restored", kind, "algo-1")][: 1 + lasts]
    assert len(reports) == 1 and reports[0].endswith(": algo-1")


def test_faults_before_the_start_and_after_the_end(tmp_path: Path):
    lines: list[str] = []
    faults = [Fault.parse(text) for text in ("same-base:dnn-1", "half-checkpoint:dnn-1")]
    cluster = [replace(host, paths=HostPaths(tmp_path / host.name)) for host in hosts()]
    backend = FakeBackend()
    backend.job = SimpleNamespace(checkpoints=None)
    doing = Injector(faults, Targets(cluster, "dnn"), backend, {}, lambda _: True, lines.append, 3)
    for host in cluster:
        doing.prepare(host)
    assert [path.name for path in tmp_path.iterdir()] == ["algo-2"] and lines == ["fault same-base:dnn-1: algo-2"]
    asyncio.run(asyncio.wait_for(doing.run(), LIMIT_S))
    doing.conclude()
    assert len(lines) == 2 and lines[1].startswith("could not be done")
    newest = cluster[1].paths.checkpoints / "checkpoint-0001-0000000020"
    newest.mkdir()
    (newest / "state").write_text("whole")
    doing.conclude()
    assert lines[2].startswith("fault half-checkpoint:dnn-1: checkpoint-0001-0000000020/state ")


def test_stranger_visits_every_port_of_a_host(monkeypatch):
    for name, value in {"SILENT": 20, "_LAST_S": 0.1, "_SLOW_S": 0.01}.items():
        monkeypatch.setattr(other_jobs, name, value)
    ports: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.append(writer.get_extra_info("sockname")[1])
        with contextlib.suppress(ConnectionError):
            writer.write(b"hello")
            while await reader.read(1 << 16):
                pass
        writer.close()

    async def scenario() -> None:
        servers = [await asyncio.start_server(serve, "127.0.0.3", 0, backlog=1024) for _ in range(3)]
        control, dispatcher, unused = (server.sockets[0].getsockname()[1] for server in servers)
        backend, lines = FakeBackend(), list[str]()
        backend.connect = asyncio.open_connection
        cluster = hosts()
        cluster[1] = replace(cluster[1], ports=Ports(control, {"dispatcher": (dispatcher,), "workers": ()}))
        faults = [Fault.parse("stranger:dnn-1:from=start")]
        await Injector(faults, Targets(cluster, "dnn"), backend, {}, lambda moment: True, lines.append).run()
        for server in servers:
            server.close()
        assert unused not in ports and min(ports.count(control), ports.count(dispatcher)) > other_jobs.SILENT
        opened = len(other_jobs._OPENINGS) + other_jobs.RANDOM + other_jobs.SILENT
        visit = other_jobs.Visit(other_jobs.SCANS + opened, len(b"hello"))
        assert lines[1:] == [f"{lines[0]}: port {port}: {visit}" for port in (control, dispatcher)]

    asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))


FORKED = """
import os, time
from tfhet.process import name_process
name_process("tfhet-launcher")
if os.fork() == 0:
    time.sleep(60)
print("forked", flush=True)
time.sleep(60)
"""


def test_child_before_its_program_is_no_launcher():
    """A fault for the launcher would hit its script otherwise."""
    with subprocess.Popen([sys.executable, "-c", FORKED], stdout=subprocess.PIPE, start_new_session=True) as process:
        process.stdout.readline()
        found = Population.below(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
    assert {rank: launcher.pid for rank, launcher in found.launchers.items()} == {None: process.pid}
    assert len(found.everything) == 2
