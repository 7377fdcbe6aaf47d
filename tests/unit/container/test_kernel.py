from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from tfhet.container import kernel
from tfhet.container.kernel import NAMESPACE, PURPOSES, TOOLKIT
from tfhet.errors import UsageError

pytestmark = pytest.mark.timeout(60)


def test_all_missing_features_are_named(monkeypatch):
    def absent(directory: Path) -> str:
        raise UsageError("not installed")

    needs = {"here": (NAMESPACE,), "sshd": (TOOLKIT,), "ip": (NAMESPACE, TOOLKIT), "mpirun": (TOOLKIT,)}
    looks = {"here": lambda directory: "found"}
    probes = [kernel._Probe(name, looks.get(name, absent), needs[name], f"apt {name}", False) for name in needs]
    monkeypatch.setattr(kernel, "_PROBES", tuple(probes))
    assert [feature.name for feature in kernel.missing(NAMESPACE)] == ["ip"]
    with pytest.raises(UsageError) as error:
        kernel.require(TOOLKIT)
    assert all(f"{name}: not installed; apt {name}" in str(error.value) for name in ("sshd", "ip", "mpirun"))
    monkeypatch.setattr(kernel, "_PROBES", tuple(probes[:1]))
    kernel.require(NAMESPACE)


def test_probes_cover_all_purposes():
    assert {purpose for probe in kernel._PROBES for purpose in probe.needed_for} == set(PURPOSES)
    assert all(probe.what_to_do for probe in kernel._PROBES)
    assert len({probe.name for probe in kernel._PROBES}) == len(kernel._PROBES)
    assert all(TOOLKIT in probe.needed_for for probe in kernel._PROBES if NAMESPACE in probe.needed_for)


def test_without_root_only_root_is_missing(monkeypatch):
    monkeypatch.setattr(kernel, "_lacking_capabilities", lambda: ["CAP_SYS_ADMIN"])
    monkeypatch.setattr(kernel.shutil, "which", lambda name: f"/bin/{name}")
    assert [feature.name for feature in kernel.missing(NAMESPACE)] == ["root"]
    found = {feature.name: feature for feature in kernel.probe()}
    assert found["root"].there is False and "CAP_SYS_ADMIN" in found["root"].detail
    assert found["bridge"].there is None


def test_missing_tool_is_named_with_its_package(monkeypatch):
    tools = {"nft": "nftables", "ip": "iproute2", "/usr/sbin/sshd": "openssh-server", "mpirun": "openmpi-bin"}
    real = shutil.which
    monkeypatch.setattr(kernel.shutil, "which", lambda name: None if name in tools else real(name))
    found = {feature.name: feature for feature in kernel.probe()}
    for tool, package in tools.items():
        assert found[Path(tool).name].there is False and package in found[Path(tool).name].what_to_do


def test_probe_leaves_nothing_behind(tmp_path):
    def state() -> tuple[object, ...]:
        texts = [Path(f"/proc/self/{name}").read_text() for name in ("mounts", "cgroup")]
        return socket.if_nameindex(), texts, len(list(Path("/proc/self/fd").iterdir())), list(tmp_path.iterdir())

    before = state()
    found = {feature.name: feature for feature in kernel.probe(tmp_path)}
    assert state() == before and len(found) == len(kernel._PROBES)
    assert found["overlay"] in kernel.probe(tmp_path / "runs" / "one"), "a folder that does not exist yet"
    if not kernel._lacking_capabilities():
        assert {feature.name: feature.there for feature in kernel.probe(Path("/proc"))}["overlay"] is False
