from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tfhet.cluster import HostPaths, Ports
from tfhet.errors import UsageError
from tfhet.process import Child
from tfhet.simulate import Fault, injector, stranger
from tfhet.simulate.fault import MOMENTS
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.injector import Injector
from tfhet.simulate.targets import Targets

pytestmark = pytest.mark.timeout(60)
LIMIT_S = 30.0

# A launcher: starts what it is told to, and says how each of them ended.
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
        workers_here = tuple(range(6001, 6001 + (workers if group == "data" else 0)))
        ports = Ports(16000, {"dispatcher": (6000,), "workers": workers_here})
        paths = HostPaths(Path("."))
        made.append(
            SimulatedHost(
                f"algo-{index + 1}",
                group,
                "ml",
                f"127.0.0.{index + 2}",
                ports,
                ranks,
                paths,
                ("dispatcher",),
                bool(workers_here),
                role=group,
            )
        )
    return made


class Noted:
    """A backend of process hosts that writes down what is done to it."""

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


def checked(text: str, cluster: Sequence[SimulatedHost] | None = None) -> None:
    Targets(cluster or hosts(), "dnn").check(Fault.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "kill:rank=3",
        "kill:worker@data-1",
        "kill:worker",
        "oom:dispatcher",
        "kill:dispatcher@dnn-1",
        "partition:dnn-2",
        "slow-disk:algo-1",
        "partition:data",
        "loss=1%:dnn",
        "sigterm:host@dnn-2",
        "second-job:dnn-1",
        "second-job:data-1",
        "half-checkpoint:dnn-2",
        "partition-in:data-1",
    ],
)
def test_a_fault_at_what_is_there_is_taken(text: str):
    checked(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kill:rank=4", "'?4'?; known: 0, 1, 2, 3"),
        ("oom:rank=40", "known: 0, 1, 2, 3"),
        ("kill:host@data-2", "known: .*data-1, dnn, dnn-1, dnn-2"),
        ("partition:algo-9", "algo-1, algo-2"),
        ("slow-disk:dnn-3", "dnn-1, dnn-2"),
        ("delay=50ms:cpu_group", "dnn-1, dnn-2"),
        ("kill:worker@dnn-1", "no worker runs there; hosts that have one: algo-1"),
        ("kill:dispatcher@data-1", "the dispatcher runs on dnn-1"),
        ("second-job:dnn-2", "nothing listens there"),
        ("half-checkpoint:data-1", "checkpoints are written on dnn hosts"),
        ("full-disk:data-2", "known: "),
    ],
)
def test_a_fault_at_what_is_not_there_is_refused_with_what_is(text: str, words: str):
    with pytest.raises(UsageError, match=words):
        checked(text)


def test_a_host_alone_cannot_be_cut_off():
    with pytest.raises(UsageError, match="every host of the cluster"):
        checked("partition:dnn-1", hosts(data=0, dnn=1))
    with pytest.raises(UsageError, match="every host of the cluster"):
        checked("partition-out:dnn-1", hosts(data=0, dnn=1))


def injected(
    fault: str, *launchers: Sequence[str], until: str, backend: Noted | None = None
) -> tuple[list[str], list[str], list[int]]:
    """Does one fault to `launchers` of algo-1 (words for LAUNCHER), until one of them, or the injector, says `until`.

    Gives what the launchers said, what the injector said, and the process ids of the launchers.
    """

    async def run() -> tuple[list[str], list[str], list[int]]:
        said: list[str] = []
        told: list[str] = []
        children: dict[str, Child] = {}
        wanted = sum(len(words) // 2 for words in launchers)
        one = hosts(data=0, dnn=1, ranks=len(launchers), workers=0)
        one.append(hosts()[1])  # somebody to be cut off from
        targets, all_up = Targets(one, "dnn"), lambda _: said.count("up") == wanted
        doing = Injector([Fault.parse(fault)], targets, backend or Noted(), children, all_up, told.append)
        for rank, words in enumerate(launchers):
            children[f"algo-1/{rank}"] = await Child.start(
                "launcher", [sys.executable, "-c", LAUNCHER, *words], env=os.environ, on_line=said.append
            )
        injecting = asyncio.create_task(doing.run())
        try:
            for _ in range(int(LIMIT_S * 20)):
                if any(until in line for line in [*said, *told]):
                    break
                await asyncio.sleep(0.05)
            else:
                pytest.fail(f"never said {until!r}: {said} {told}")
        finally:
            injecting.cancel()
            await asyncio.gather(injecting, return_exceptions=True)
            await asyncio.gather(*(child.stop(5.0) for child in children.values()))
        return said, told, [child.pid for child in children.values()]

    return asyncio.run(run())


def test_a_process_that_asks_for_memory_dies_of_having_none():
    said, told, _ = injected("oom:rank=0", ("script", GROWS), until="died of it")
    assert any("MemoryError" in line for line in said)
    assert "ended 1" in said
    assert len(told) == 2 and "gets no memory beyond its" in told[0]


def test_a_process_that_asks_for_none_is_killed_as_the_kernel_would(monkeypatch):
    monkeypatch.setattr(injector, "STARVED_S", 0.3)
    said, told, _ = injected("oom:worker", ("worker", IDLES), until="ended -9")
    assert len(told) == 2 and "SIGKILL, as from the kernel" in told[1]
    assert f"ended {-signal.SIGKILL}" in said


def test_sigterm_to_a_host_is_sent_to_every_launcher_at_once_and_to_nobody_else():
    both = (("script", IDLES), ("script", IDLES))
    said, told, pids = injected("sigterm:host@algo-1", *both, until="told")
    assert told == [f"fault sigterm:host@algo-1: SIGTERM to process {pids[0]}, {pids[1]}"]
    assert "ended -15" not in said


@pytest.mark.parametrize("way", ["", "in", "out"])
def test_the_workers_of_a_host_that_is_cut_off_stand_still_until_it_is_healed(way: str):
    kind, backend = f"partition-{way}".rstrip("-"), Noted()
    watched = f"""{UP}
while True:
    before = time.monotonic()
    time.sleep(0.05)
    if time.monotonic() - before > 0.4:
        print('stood still', flush=True)
"""
    said, told, _ = injected(
        f"{kind}:algo-1:for=0.6", ("worker", watched, "worker", watched), until="stood still", backend=backend
    )
    assert told == [f"fault {kind}:algo-1:for=0.6: algo-1 cut off"]
    assert backend.done == [("cut", "algo-1", way), ("heal", "algo-1", way)]


def test_what_a_host_prints_is_not_read_for_a_while():
    says = f"{UP}\nfor n in range(5): time.sleep(0.2), print('more', n, flush=True)"
    said, told, _ = injected("stall:algo-1:for=1.5", ("script", says), until="more 4")
    assert told == ["fault stall:algo-1:for=1.5"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_after_counts_from_the_moment_that_the_fault_names(moment: str):
    backend, asked = Noted(), []

    def has_come(which: str) -> bool:
        asked.append(which)
        return len(asked) > 1

    doing = Injector(
        [Fault.parse(f"clock=+5s:data-1:from={moment}")], Targets(hosts(), "dnn"), backend, {}, has_come, str
    )
    asyncio.run(asyncio.wait_for(doing.run(), LIMIT_S))
    assert asked == [moment, moment] and backend.done == [("clock", "algo-1", 5.0)]


def test_faults_between_two_runs_come_before_the_host_starts_and_after_the_job(tmp_path: Path):
    lines: list[str] = []
    faults = [Fault.parse(text) for text in ("same-base:dnn-1", "half-checkpoint:dnn-1")]
    one, two, three = (replace(host, paths=HostPaths(tmp_path / host.name)) for host in hosts())
    backend = Noted()
    backend.job = SimpleNamespace(checkpoints=None)
    doing = Injector(faults, Targets([one, two, three], "dnn"), backend, {}, lambda _: True, lines.append, 3)
    for host in (one, two, three):
        doing.prepare(host)
    assert [path.name for path in tmp_path.iterdir()] == ["algo-2"] and lines == ["fault same-base:dnn-1: algo-2"]
    asyncio.run(asyncio.wait_for(doing.run(), LIMIT_S))
    doing.conclude()
    assert lines[1:] == ["could not be done: fault half-checkpoint:dnn-1: no checkpoint"]
    newest = two.paths.checkpoints / "checkpoint-0001-0000000020"
    newest.mkdir()
    (newest / "state").write_text("whole")
    doing.conclude()
    assert lines[2].startswith("fault half-checkpoint:dnn-1: checkpoint-0001-0000000020/state ")


def test_a_stranger_comes_to_every_port_of_a_host_and_counts_what_it_was_sent():
    came: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer.get_extra_info("sockname")[1])
        with contextlib.suppress(ConnectionError):
            writer.write(b"hello")
            while await reader.read(1 << 16):
                pass
        writer.close()

    async def scenario() -> list[str]:
        servers = [await asyncio.start_server(serve, "127.0.0.3", 0, backlog=1024) for _ in range(3)]
        control, dispatcher, unused = (server.sockets[0].getsockname()[1] for server in servers)
        backend, lines = Noted(), list[str]()
        backend.connect = asyncio.open_connection
        cluster = hosts()
        cluster[1] = replace(cluster[1], ports=Ports(control, {"dispatcher": (dispatcher,), "workers": ()}))
        faults = [Fault.parse("stranger:dnn-1:from=start")]
        await Injector(faults, Targets(cluster, "dnn"), backend, {}, lambda moment: True, lines.append).run()
        for server in servers:
            server.close()
        assert unused not in came and min(came.count(control), came.count(dispatcher)) > stranger.SILENT
        return [line.replace(str(control), "CONTROL").replace(str(dispatcher), "DISPATCHER") for line in lines]

    told = asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))
    count = stranger.SCANS + stranger.SILENT + 20
    assert told == [
        "fault stranger:dnn-1:from=start",
        f"fault stranger:dnn-1:from=start: port CONTROL: {count} connections got 5 bytes at most",
        f"fault stranger:dnn-1:from=start: port DISPATCHER: {count} connections got 5 bytes at most",
    ]


@pytest.mark.parametrize(
    ("fault", "harm"),
    [
        ("loss=1%", ("loss", "algo-1", 0.01)),
        ("delay=50ms", ("delay", "algo-1", 0.05)),
        ("rate=1mbit", ("rate", "algo-1", 1e6)),
        ("slow-disk", ("slow-disk", "algo-1", None)),
        ("slow-dns=2s", ("slow-dns", "algo-1", 2.0)),
    ],
)
@pytest.mark.parametrize("lasts", [True, False])
def test_a_host_is_impaired_for_as_long_as_the_fault_lasts(fault: str, harm: tuple, lasts: bool):
    backend, lines, faults = Noted(), [], [Fault.parse(f"{fault}:data-1" + (":for=0.05" if lasts else ""))]
    doing = Injector(faults, Targets(hosts(), "dnn"), backend, {}, lambda _: True, lines.append)
    asyncio.run(asyncio.wait_for(doing.run(), LIMIT_S))
    assert backend.done == [harm, ("restored", harm[0], "algo-1")][: 1 + lasts]
    assert lines == [f"fault {faults[0]}: algo-1"]
