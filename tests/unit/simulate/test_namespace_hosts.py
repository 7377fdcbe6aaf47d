"""simulate/namespace_hosts.py where something fails. What it does on a kernel is in tests/integration."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tfhet import container
from tfhet.container import Limits
from tfhet.container.bridge import Bridge
from tfhet.container.cgroup import Cgroup
from tfhet.container.container import Container, Mount
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.messages import ContainerFailureLine
from tfhet.process import Child
from tfhet.simulate import ClusterFile, GroupFile, host_container, namespace_hosts
from tfhet.simulate.host import hosts_of
from tfhet.simulate.namespace_hosts import NamespaceHosts
from tfhet.simulate.submission import Submission

NAME = "algo-1"


class Played:
    """The kernel. What is in `fails` raises, by method."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.fails: dict[str, Exception] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.required: list[str] = []
        self.said: list[str] = []
        self.stays: list[int] = []
        """Processes that no signal ends."""
        self.killed_for_memory = 0
        self.mounts: list[Mount] = []
        """Mounts of the container that was started last."""

    def call(self, *what: Any) -> None:
        self.calls.append(what)
        if error := self.fails.get(what[0]):
            raise error

    def called(self, *names: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] in names]


class PlayedCgroup(Cgroup):
    def __init__(self, played: Played):
        self.played = played

    def add(self, pid: int) -> None:
        self.played.call("add", pid)

    def limit(self, limits: Limits) -> tuple[str, ...]:
        self.played.call("cgroup", limits)
        return ("CPU set",)

    def remove(self, *_: Any) -> list[int]:
        self.played.call("remove")
        return self.played.stays

    def memory_peak_bytes(self) -> int:
        return 7

    def out_of_memory_kills(self) -> int:
        return self.played.killed_for_memory


class PlayedBridge(Bridge):
    def __init__(self, played: Played):
        self.played = played

    def attach(self, host: str, pid: int, address: str) -> None:
        self.played.call("attach", host)

    def limit(self, host: str, bits_per_s: float | None) -> None:
        self.played.call("limit", host, bits_per_s)

    def prepare_delay(self) -> None:
        self.played.call("prepare")

    def delay(self, host: str, delay_s: float | None) -> None:
        self.played.call("delay", host, delay_s)

    def lose(self, host: str, share: float | None) -> None:
        self.played.call("lose", host, share)

    def bytes(self, host: str) -> Any:
        raise TfhetError("no counter")

    def close(self) -> None:
        self.played.call("close")


class PlayedOwner:
    tag = "abcd"

    def __init__(self, played: Played):
        self.played = played

    def register(self, path: Path) -> None:
        self.played.call("register", path)

    def release(self, *, is_clean: bool) -> None:
        self.played.call("release", is_clean)


class PlayedChild:
    """A container: this process, as far as anybody asks. It ends when it is told to."""

    def __init__(self, name: str, code: int | None = None, tail: tuple[str, ...] = ()):
        self.name, self.code, self.tail, self.pid = name, code, list(tail), os.getpid()

    async def wait(self) -> int:
        assert self.code is not None
        return self.code

    async def stop(self, grace_s: float) -> int:
        self.code = -15 if self.code is None else self.code
        return self.code


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    made = Played(tmp_path)

    async def start(label: str, command: list[str], **_: Any) -> PlayedChild:
        made.mounts = list(Container.read(Path(command[-1])).mounts)
        return PlayedChild(label)

    async def isolated(child: Any) -> None:
        made.call("isolated")

    def sweep() -> list[str]:
        made.call("sweep", threading.current_thread())
        return ["left by a simulator that died (wxyz): folder /x: removed"]

    monkeypatch.setattr(container, "require", lambda what, *_: made.required.append(what))
    monkeypatch.setattr(container, "sweep", sweep)
    monkeypatch.setattr(container, "claim", lambda: PlayedOwner(made))
    monkeypatch.setattr(namespace_hosts, "Bridge", lambda tag: PlayedBridge(made))
    monkeypatch.setattr(Cgroup, "create", lambda *_: PlayedCgroup(made))
    monkeypatch.setattr(Child, "start", start)
    monkeypatch.setattr(namespace_hosts, "_isolated", isolated)
    return made


def backend(played: Played, start: str = "alone", limits_from: str = "start", **limits: Any) -> NamespaceHosts:
    """A backend with one host."""
    launcher = played.folder / "launcher.py"
    launcher.touch()
    cluster = ClusterFile("c", {"only": GroupFile(1, **limits)})
    job = Submission.of(
        cluster,
        [str(launcher)],
        hosts="namespace",
        start=start,
        code=played.folder,
        limits_from=limits_from,
    )
    hosts = hosts_of(job, played.folder / "run", 0)
    return NamespaceHosts(job, hosts, {}, lambda host: played.said.append)


def life(one: NamespaceHosts) -> dict[str, Any]:
    """Opens it, starts its host, limits it, closes it: what it says for the record."""

    async def live() -> None:
        try:
            await one.open({})
            await one.start(one.hosts[0], {})
            one.limit()
        finally:
            await one.close()

    asyncio.run(live())
    return one.facts()


@pytest.mark.parametrize(
    ("start", "limits", "required"),
    [
        ("alone", {}, ["namespace"]),
        ("toolkit", {}, ["toolkit"]),
        ("alone", {"mbit_per_s": 10}, ["namespace", "limit"]),
        ("alone", {"latency_ms": 5, "loss_pct": 1}, ["namespace", "delay", "lose"]),
    ],
)
def test_what_the_machine_must_have_is_asked_for_before_anything_is_made(played, start, limits, required) -> None:
    backend(played, start, **limits)
    assert played.required == required
    assert played.calls == []


def test_what_a_dead_simulator_left_is_swept_away_without_holding_up_the_event_loop(played) -> None:
    life(backend(played))
    ((_, thread),) = played.called("sweep")
    assert thread is not threading.main_thread()
    assert played.said[0].startswith("left by a simulator that died")


def test_every_limit_of_the_network_is_set_and_a_limit_that_is_not_there_is_named(played) -> None:
    facts = life(backend(played, mbit_per_s=10, latency_ms=5, loss_pct=2, limits_from="reading"))
    assert played.called("limit", "delay", "lose") == [
        ("limit", NAME, 10e6),
        ("delay", NAME, 0.005),
        ("lose", NAME, 0.02),
    ]
    assert played.called("prepare") and facts["not_limited"] == ["CPU set"]


@pytest.mark.parametrize("kind", ["rate", "delay", "loss"])
@pytest.mark.parametrize("is_limited", [True, False])
def test_after_a_fault_of_the_network_a_host_has_again_what_its_group_is_limited_to(played, kind, is_limited) -> None:
    limits = {"mbit_per_s": 10, "latency_ms": 5, "loss_pct": 2} if is_limited else {}
    one, call = backend(played, **limits), {"rate": "limit", "delay": "delay", "loss": "lose"}[kind]

    async def live() -> None:
        await one.open({})
        await one.start(one.hosts[0], {})
        played.calls.clear()
        await one.impair(kind, NAME, 0.5)
        one.restore(kind, NAME)
        await one.close()

    asyncio.run(live())
    usual = {"rate": 10e6, "delay": 0.005, "loss": 0.02}[kind] if is_limited else None
    assert played.called(call) == [(call, NAME, 0.5), (call, NAME, usual)]
    assert bool(played.called("prepare")) == (kind == "delay")


def test_a_host_has_its_cpus_from_the_start_when_its_limits_begin_later(played) -> None:
    life(backend(played, cpus=0.5, limits_from="reading"))
    (_, early), (_, late) = played.called("cgroup")
    assert early == Limits(cpu_set=late.cpu_set) and late.cpu_set and late.cpus == 0.5
    assert [call[0] for call in played.called("cgroup", "attach")][0] == "cgroup"


def test_a_host_without_latency_and_loss_needs_none_of_their_tools(played) -> None:
    life(backend(played, cpus=0.5))
    assert not played.called("delay", "lose", "prepare")


@pytest.mark.parametrize("step", ["add", "attach"])
def test_a_container_that_cannot_be_completed_is_ended_and_the_job_fails_with_the_reason(played, step) -> None:
    played.fails[step] = UsageError("the kernel refuses")
    with pytest.raises(JobFailed, match=rf"the container {NAME} could not be made: .*\(the kernel refuses\)"):
        life(backend(played))
    assert played.called("remove") and played.called("close") and played.called("release") == [("release", True)]


def test_a_limit_that_the_kernel_refuses_is_said_and_in_the_record_and_the_job_goes_on(played) -> None:
    played.fails["cgroup"] = UsageError("memory cannot be set")
    facts = life(backend(played, memory_mib=100))
    assert facts["not_limited"] == [f"{NAME}: memory cannot be set"]
    assert f"[simulate] {NAME} is not limited: memory cannot be set" in played.said


@pytest.mark.parametrize(
    ("stays", "fails", "said"),
    [
        ([41, 42], {}, "[simulate] algo-1: process 42 does not end"),
        ([], {"remove": TfhetError("cgroup x: cannot be removed")}, "[simulate] algo-1: cgroup x: cannot be removed"),
    ],
)
def test_what_cannot_be_removed_is_said_and_left_to_the_next_sweep(played, stays, fails, said) -> None:
    played.stays, played.fails = stays, fails
    life(backend(played))
    assert said in played.said
    assert played.called("release") == [("release", False)]
    assert not list(played.folder.rglob(".scratch-*")), "the rest is removed all the same"


def test_a_network_that_does_not_close_does_not_keep_the_rest_from_being_removed(played) -> None:
    played.fails["close"] = TfhetError("`ip` did not end within 1 s")
    life(backend(played))
    assert any(line.startswith("[simulate] the network: ") for line in played.said)
    assert played.called("release") == [("release", True)]
    assert not list(played.folder.rglob(".scratch-*"))


@pytest.mark.parametrize(
    ("limit", "why"), [({"memory_mib": 512}, "its memory limit of 512 MiB"), ({}, "want of memory")]
)
def test_what_the_kernel_killed_for_memory_is_said_and_counted(played, limit, why) -> None:
    played.killed_for_memory = 2
    facts = life(backend(played, **limit))
    assert f"[simulate] {NAME}: the kernel killed 2 of its processes for {why}" in played.said
    use = {"memory_peak_bytes": 7, "out_of_memory_kills": 2, "sent_bytes": None, "received_bytes": None}
    assert facts["host_use"] == {NAME: use}


def test_a_container_that_ends_while_it_is_made_says_why() -> None:
    child = PlayedChild(NAME, 1, ("x", f"[{NAME}] {ContainerFailureLine('mount overlay: no space')}", "y"))
    with pytest.raises(JobFailed, match=f"^the container {NAME} could not be made: mount overlay: no space$"):
        asyncio.run(namespace_hosts._isolated(child))  # type: ignore[arg-type]


def test_a_container_without_a_network_of_its_own_is_not_waited_for_for_ever(monkeypatch) -> None:
    monkeypatch.setattr(namespace_hosts, "_NAMESPACE_S", 0.05)
    with pytest.raises(JobFailed, match="has no network of its own after 0.05 s"):
        asyncio.run(namespace_hosts._isolated(PlayedChild(NAME)))  # type: ignore[arg-type]


def test_keys_that_cannot_be_made_are_wrong_use_with_what_ssh_keygen_says(tmp_path, monkeypatch) -> None:
    program = tmp_path / "ssh-keygen"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no entropy')\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="ssh-keygen .*: no entropy"):
        host_container.ssh_files(tmp_path)


def test_a_container_that_fails_after_it_seemed_to_run_says_why_it_could_not_be_made(played) -> None:
    one, failure = backend(played), f"[b] {ContainerFailureLine('no such mount')}"
    ended, failed = PlayedChild("a", 1, ("a launcher's last line",)), PlayedChild("b", 1, ("before", failure))
    assert one.not_made([ended]) is None
    assert one.not_made([ended, failed]) == "the container b could not be made: no such mount"
