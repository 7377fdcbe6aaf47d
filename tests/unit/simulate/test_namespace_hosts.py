"""Failures of namespace hosts, with a fake kernel; tests/integration and tests/faults run them on a real one."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tfhet import container
from tfhet.container import Limits
from tfhet.container.cgroup import Cgroup
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.messages import ContainerFailureLine
from tfhet.process import Child
from tfhet.simulate import ClusterFile, GroupFile, host_container, namespace_hosts
from tfhet.simulate.host import hosts_of
from tfhet.simulate.namespace_hosts import NamespaceHosts
from tfhet.simulate.submission import Submission

NAME = "algo-1"


class FakePart:
    """Records the calls of its methods, like `cgroup.limit`. A method raises or returns its entry in `results`."""

    tag = "abcd"

    def __init__(self, kernel: FakeKernel, name: str):
        self._kernel, self._name = kernel, name

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            name = f"{self._name}.{method}"
            self._kernel.calls.append((name, *arguments, *options.values()))
            result = self._kernel.results.get(name)
            if isinstance(result, Exception):
                raise result
            return result

        return call


class FakeKernel:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.results: dict[str, Any] = {
            "cgroup.limit": ("CPU set",),
            "cgroup.remove": [],
            "cgroup.memory_peak_bytes": 7,
            "cgroup.out_of_memory_kills": 0,
            "bridge.bytes": TfhetError("no counter"),
        }
        self.required: list[str] = []
        self.output: list[str] = []

    def called(self, *names: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] in names]


class FakeChild:
    """A container: this process, which ends when it is stopped."""

    def __init__(self, name: str, code: int | None = None, tail: tuple[str, ...] = ()):
        self.name, self.code, self.tail, self.pid = name, code, list(tail), os.getpid()

    async def wait(self) -> int:
        assert self.code is not None
        return self.code

    async def stop(self, grace_s: float) -> int:
        self.code = -15 if self.code is None else self.code
        return self.code


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    made = FakeKernel()
    bridge, cgroup, owner = (FakePart(made, name) for name in ("bridge", "cgroup", "owner"))

    async def start(label: str, command: list[str], **_: Any) -> FakeChild:
        return FakeChild(label)

    async def isolated(child: Any) -> None:
        return None

    def sweep() -> list[str]:
        made.calls.append(("sweep", threading.current_thread()))
        return ["swept"]

    monkeypatch.setattr(container, "require", lambda what, *_: made.required.append(what))
    monkeypatch.setattr(container, "sweep", sweep)
    monkeypatch.setattr(container, "claim", lambda: owner)
    monkeypatch.setattr(namespace_hosts, "Bridge", lambda tag: bridge)
    monkeypatch.setattr(Cgroup, "create", lambda *_: cgroup)
    monkeypatch.setattr(Child, "start", start)
    monkeypatch.setattr(namespace_hosts, "_isolated", isolated)
    return made


@pytest.fixture
def backend(kernel: FakeKernel, tmp_path: Path) -> Callable[..., NamespaceHosts]:
    """`backend(start=..., limits_from=..., **limits)`: a backend with one host."""

    def make(start: str = "alone", limits_from: str = "start", **limits: Any) -> NamespaceHosts:
        (tmp_path / "launcher.py").touch()
        cluster = ClusterFile("c", {"only": GroupFile(1, **limits)})
        how = {"hosts": "namespace", "start": start, "code": tmp_path, "limits_from": limits_from}
        job = Submission.of(cluster, [str(tmp_path / "launcher.py")], **how)
        return NamespaceHosts(job, hosts_of(job, tmp_path / "run", 0), {}, lambda host: kernel.output.append)

    return make


def live(one: NamespaceHosts) -> dict[str, Any]:
    """Opens it, starts its host, limits it, closes it. Returns its facts for the record."""

    async def run() -> None:
        try:
            await one.open({})
            await one.start(one.hosts[0], {})
            one.limit()
        finally:
            await one.close()

    asyncio.run(run())
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
def test_machine_is_checked_first(backend, kernel, start, limits, required) -> None:
    backend(start, **limits)
    assert kernel.required == required and kernel.calls == []


@pytest.mark.parametrize(
    ("kind", "method", "usual"), [("rate", "limit", 10e6), ("delay", "delay", 0.005), ("loss", "lose", 0.02)]
)
@pytest.mark.parametrize("is_limited", [True, False])
def test_usual_limit_returns_after_a_fault(backend, kernel, kind, method, usual, is_limited) -> None:
    one = backend(**{"mbit_per_s": 10, "latency_ms": 5, "loss_pct": 2} if is_limited else {})

    async def run() -> None:
        await one.open({})
        await one.start(one.hosts[0], {})
        kernel.calls.clear()
        await one.impair(kind, NAME, 0.5)
        one.restore(kind, NAME)
        await one.close()

    asyncio.run(run())
    call = f"bridge.{method}"
    assert kernel.called(call) == [(call, NAME, 0.5), (call, NAME, usual if is_limited else None)]


def test_cpu_set_applies_before_later_limits(backend, kernel) -> None:
    live(backend(cpus=0.5, limits_from="reading"))
    (_, early), (_, late) = kernel.called("cgroup.limit")
    assert early == Limits(cpu_set=late.cpu_set) and late.cpu_set and late.cpus == 0.5
    assert kernel.called("cgroup.limit", "bridge.attach")[0][0] == "cgroup.limit"


@pytest.mark.parametrize("step", ["cgroup.add", "bridge.attach"])
def test_incomplete_container_fails_the_job(backend, kernel, step) -> None:
    kernel.results[step] = UsageError("the kernel refuses")
    with pytest.raises(JobFailed, match=rf"{NAME}.*the kernel refuses"):
        live(backend())
    assert kernel.called("cgroup.remove") and kernel.called("bridge.close")
    assert kernel.called("owner.release") == [("owner.release", True)]


def test_refused_limit_is_recorded(backend, kernel) -> None:
    kernel.results["cgroup.limit"] = UsageError("refused")
    assert live(backend(memory_mib=100))["not_limited"] == [f"{NAME}: refused"]
    assert any("refused" in line for line in kernel.output)


@pytest.mark.parametrize(
    ("call", "result", "text", "is_clean"),
    [
        ("cgroup.remove", [41, 42], "42", False),
        ("cgroup.remove", TfhetError("stuck"), "stuck", False),
        ("bridge.close", TfhetError("stuck"), "stuck", True),  # the kernel removes it with this process
    ],
)
def test_failed_removal_is_reported(backend, kernel, tmp_path, call, result, text, is_clean) -> None:
    kernel.results[call] = result
    live(backend())
    assert any(text in line for line in kernel.output)
    assert kernel.called("owner.release") == [("owner.release", is_clean)]
    assert not list(tmp_path.rglob(".scratch-*")), "the other parts are removed all the same"


def test_container_that_ends_early_says_why(backend) -> None:
    failure = f"[b] {ContainerFailureLine('mount overlay: no space')}"
    ended, failed = FakeChild("a", 1, ("a launcher's last line",)), FakeChild("b", 1, ("before", failure, "after"))
    one = backend()
    assert one.not_made([ended]) is None
    assert "mount overlay: no space" in (one.not_made([ended, failed]) or "")


def test_failure_of_ssh_keygen_is_reported(tmp_path, monkeypatch) -> None:
    program = tmp_path / "ssh-keygen"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no entropy')\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="ssh-keygen .*: no entropy"):
        host_container.ssh_files(tmp_path)


def test_container_has_programs_outside_the_code_directory(tmp_path, monkeypatch):
    """SageMaker's toolkit refuses the absolute path of a program; a container has a `/tmp` of its own."""
    (tmp_path / "train.py").touch()
    monkeypatch.setattr(host_container, "_HIDDEN", (f"{tmp_path.parent}/",))
    job = Submission(
        ClusterFile(), [str(tmp_path / "train.py"), "--epochs", "1"], "job", "namespace", "toolkit", tmp_path
    )
    assert host_container._program(job) == "tfhet-train.py"
    assert host_container.carried({}, str(tmp_path / "train.py")) == [str(tmp_path)]
