"""The plane's replacements for Ray's own functions."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import psutil
import pytest

from tfhet.planes.ray import private


@pytest.fixture
def fake_ray(monkeypatch, tmp_path):
    """Ray's modules, as far as `_informed` calls them: a port is a file of its name. Returns them, and whether the
    packages of its dashboard are there can be set."""
    raylet = types.ModuleType("ray._raylet")
    for name in ("METRICS_AGENT", "METRICS_EXPORT", "DASHBOARD_AGENT_LISTEN", "RUNTIME_ENV_AGENT"):
        setattr(raylet, f"{name}_PORT_NAME", f"{name.lower()}_port")
    raylet.persist_port = lambda folder, node, name, port: Path(folder, f"{name}_{node}").write_text(str(port))
    found = types.ModuleType("ray._private.utils")
    found.get_dashboard_dependency_error = lambda: None
    ray = types.ModuleType("ray")
    ray._raylet = raylet
    for module in (ray, raylet, found, types.ModuleType("ray._private")):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return found


@pytest.mark.parametrize(
    ("lacks", "ports"), [(None, ["3", "-1", "1", "4"]), (ImportError("aiohttp"), ["-1", "-1", "-1", "4"])]
)
def test_the_raylet_finds_the_ports_of_agents_that_have_not_started(fake_ray, tmp_path, lacks, ports):
    fake_ray.get_dashboard_dependency_error = lambda: lacks
    names = ("dashboard_agent_listen_port", "metrics_export_port", "metrics_agent_port", "runtime_env_agent_port")

    def start_raylet(
        node_id,
        session_dir,
        metrics_agent_port=0,
        metrics_export_port=0,
        dashboard_agent_listen_port=0,
        runtime_env_agent_port=0,
    ):
        return [Path(session_dir, f"{name}_{node_id}").read_text() for name in names]

    given = {"metrics_agent_port": 1, "metrics_export_port": 2, "dashboard_agent_listen_port": 3}
    assert private._informed(start_raylet)("ab", str(tmp_path), **given, runtime_env_agent_port=4) == ports


@pytest.mark.parametrize(("name", "ends"), [("raylet", True), ("other", False)])
def test_a_node_whose_raylet_has_ended_is_not_waited_for(tmp_path, name, ends):
    (tmp_path / name).symlink_to("/bin/true")
    child = subprocess.Popen([tmp_path / name])
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
        pass
    answers = iter([RuntimeError("not there"), RuntimeError("not there")])

    def get_node(*given):
        for error in answers:
            raise error
        return given

    try:
        if ends:
            with pytest.raises(SystemExit, match="raylet ended before the node had joined"):
                private._patient(get_node, 60.0)("head", "id")
        else:
            assert private._patient(get_node, 60.0)("head", "id") == ("head", "id")
    finally:
        child.wait()


def test_a_node_is_waited_for_until_its_deadline():
    def get_node(*given):
        raise RuntimeError("not there")

    with pytest.raises(RuntimeError, match="not there"):
        private._patient(get_node, 0.0)("head", "id")
