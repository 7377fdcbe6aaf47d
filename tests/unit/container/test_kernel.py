from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from tfhet.container import kernel
from tfhet.container.kernel import DELAY, NAMESPACE, PURPOSES, TOOLKIT, KernelFeature
from tfhet.errors import UsageError

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def probes(monkeypatch):
    """Puts probes in the place of the real ones: (name, whether it is there, what it is needed for)."""

    def put(*given: tuple[str, bool, tuple[str, ...]]) -> None:
        def look(is_there: bool):
            def looked(directory) -> str:
                if not is_there:
                    raise UsageError("not installed")
                return "found"

            return looked

        made = [kernel._Probe(name, look(there), needed, f"install {name}", False) for name, there, needed in given]
        monkeypatch.setattr(kernel, "_PROBES", tuple(made))

    return put


def test_what_is_missing_for_a_purpose_is_named_at_once_with_what_to_do(probes):
    probes(
        ("here", True, (NAMESPACE,)),
        ("sshd", False, (TOOLKIT,)),
        ("ip", False, (NAMESPACE, TOOLKIT)),
        ("mpirun", False, (TOOLKIT,)),
    )
    assert [feature.name for feature in kernel.missing(NAMESPACE)] == ["ip"]
    with pytest.raises(UsageError) as error:
        kernel.require(TOOLKIT)
    assert str(error.value) == (
        "the toolkit on hosts in namespaces: this machine lacks 3 of what they need."
        " sshd: not installed; install sshd; ip: not installed; install ip; mpirun: not installed; install mpirun"
    )


def test_with_all_that_a_purpose_needs_nothing_is_raised(probes):
    probes(("here", True, (NAMESPACE,)), ("sshd", False, (TOOLKIT,)))
    kernel.require(NAMESPACE)


def test_an_unknown_purpose_is_refused_with_those_that_there_are():
    with pytest.raises(UsageError, match="unknown purpose 'flying'; known: delay, limit, lose, namespace, preloaded"):
        kernel.missing("flying")


def test_every_purpose_and_every_feature_says_what_to_do():
    assert {purpose for probe in kernel._PROBES for purpose in probe.needed_for} == set(PURPOSES)
    assert all(probe.what_to_do for probe in kernel._PROBES)
    assert len({probe.name for probe in kernel._PROBES}) == len(kernel._PROBES)


def test_the_toolkit_needs_all_that_namespaces_need():
    for each in kernel._PROBES:
        assert TOOLKIT in each.needed_for or NAMESPACE not in each.needed_for, each.name


def test_without_root_only_root_is_missing_and_the_rest_is_not_tried(monkeypatch):
    monkeypatch.setattr(kernel, "_lacking_capabilities", lambda: ["CAP_SYS_ADMIN"])
    monkeypatch.setattr(kernel.shutil, "which", lambda name: f"/bin/{name}")
    assert [feature.name for feature in kernel.missing(NAMESPACE)] == ["root"]
    found = {feature.name: feature for feature in kernel.probe()}
    assert found["root"].there is False and "CAP_SYS_ADMIN" in found["root"].detail
    assert found["bridge"] == KernelFeature(
        "bridge", None, "not tried: it takes root", found["bridge"].needed_for, found["bridge"].what_to_do
    )


def test_a_tool_that_is_not_installed_is_named_with_debians_package(monkeypatch):
    tools = {"nft": "nftables", "ip": "iproute2", "/usr/sbin/sshd": "openssh-server", "mpirun": "openmpi-bin"}
    real = shutil.which
    monkeypatch.setattr(kernel.shutil, "which", lambda name: None if name in tools else real(name))
    found = {feature.name: feature for feature in kernel.probe()}
    for tool, package in tools.items():
        feature = found[Path(tool).name]
        assert feature.there is False
        assert f"apt-get install {package}" in feature.what_to_do


def test_a_delay_needs_a_compiler(monkeypatch):
    for words, missing in ((["c++"], []), ([], ["C++ compiler"])):
        monkeypatch.setattr(kernel, "compiler", lambda env, words=words: words)
        assert [feature.name for feature in kernel.missing(DELAY)] == missing


def test_a_place_where_no_host_can_write_is_said():
    if kernel._lacking_capabilities():
        pytest.skip("root is missing")
    (overlay,) = (feature for feature in kernel.probe(Path("/proc")) if feature.name == "overlay")
    assert overlay.there is False
    assert "--run_dir" in overlay.what_to_do


def test_a_folder_that_is_yet_to_be_made_is_as_good_as_the_one_that_it_will_be_in(tmp_path):
    found = {feature.name: feature for feature in kernel.probe(tmp_path)}
    assert kernel.probe(tmp_path / "runs" / "one")[list(found).index("overlay")] == found["overlay"]
    assert not list(tmp_path.iterdir())


def test_probing_leaves_nothing_behind(tmp_path):
    before = socket.if_nameindex(), Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text()
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    features = kernel.probe(tmp_path)
    assert len(features) == len(kernel._PROBES)
    assert not list(tmp_path.iterdir())
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files
    after = socket.if_nameindex(), Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text()
    assert after == before
