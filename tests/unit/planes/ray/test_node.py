"""Processes of a Ray node: replaced functions of Ray, environment variables and lines of the log."""

from __future__ import annotations

import subprocess
import sys
import time
import types
from pathlib import Path

import psutil
import pytest

from tfhet.planes.ray import RAY, private
from tfhet.planes.ray.node import TRAIN_WORKER, _trains, session_folder
from tfhet.planes.ray.start import efa_devices, efa_variables, token_variables, variables


@pytest.fixture
def fake_ray(monkeypatch, tmp_path):
    """Ray's modules that `_informed` calls; a port is a file of its name."""
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
def test_raylet_finds_ports_of_late_agents(fake_ray, tmp_path, lacks, ports):
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
def test_node_without_raylet_ends(tmp_path, name, ends):
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
            with pytest.raises(SystemExit):
                private._patient(get_node, 60.0)("head", "id")
        else:
            assert private._patient(get_node, 60.0)("head", "id") == ("head", "id")
    finally:
        child.wait()


def test_node_has_a_deadline():
    def get_node(*given):
        raise RuntimeError("not there")

    with pytest.raises(RuntimeError):
        private._patient(get_node, 0.0)("head", "id")


def device(folder, name: str, driver: str) -> None:
    (folder / "drivers" / driver).mkdir(parents=True, exist_ok=True)
    (folder / "class" / name / "device").mkdir(parents=True)
    (folder / "class" / name / "device" / "driver").symlink_to(folder / "drivers" / driver)


def test_adapters_of_other_drivers_do_not_count(tmp_path):
    device(tmp_path, "rdmap16s27", "efa")
    device(tmp_path, "mlx5_0", "mlx5_core")
    assert efa_devices(tmp_path / "class") == ("rdmap16s27",)
    assert efa_devices(tmp_path / "none") == ()


def test_user_variables_win(tmp_path):
    assert efa_variables("eth0", {"GLOO_SOCKET_IFNAME": "eth1"}, tmp_path) == {"NCCL_SOCKET_IFNAME": "eth0"}
    device(tmp_path, "rdmap16s27", "efa")
    found = efa_variables("eth0", {"FI_PROVIDER": "tcp"}, tmp_path / "class")
    assert "FI_PROVIDER" not in found and found["FI_EFA_FORK_SAFE"] == "1"


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[33m(raylet, ip=127.0.0.5)\x1b[0m [2026-11-26 04:01:45,731 E 7348 7348] (raylet) main.cc:1108: no agent",
        "\x1b[33m(raylet)\x1b[0m [2026-11-26 04:01:45,731 E 7348 7348] (raylet) main.cc:1108: no agent",
        "\x1b[36m(pid=gcs_server)\x1b[0m [2026-11-26 04:07:57,173 E 1 1] (gcs_server) gcs_server.cc:1: no agent",
        "2026-11-26 03:51:27,362\tINFO worker.py:2038 -- Connected to Ray cluster.",
        "\x1b[36m(PlacementGroupCleaner pid=412)\x1b[0m Failed to query the state. Continuing to monitor.",
    ],
)
def test_log_lines_of_ray_are_noise(line: str):
    assert RAY.is_noise(line)


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[36m(rows_of pid=412)\x1b[0m 7",
        "(rows_of pid=412, ip=10.0.0.2) ValueError: 7",
        "(MapBatches(where)->Map(double) pid=412, ip=10.0.0.2) 7",
        "\x1b[33m(raylet)\x1b[0m Spilled 2214 MiB",
    ],
)
def test_lines_of_tasks_are_shown_but_no_cause(line: str):
    assert RAY.is_of_others(line) and not RAY.is_noise(line)


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: the picture 77 is upside down",
        "(raylets are missing)",
        "2026-11-26 03:51:27,362\tERROR worker.py:2038 -- the node is gone",
        "INFO train.py:12 -- epoch 3",
    ],
)
def test_lines_of_the_script_are_kept(line: str):
    assert not RAY.is_noise(line) and not RAY.is_of_others(line)


def test_folder_of_sessions_is_closed_to_other_users(tmp_path):
    tmp_path.chmod(0o777)
    for _ in range(2):  # a node may start again
        sessions = session_folder(tmp_path)
        sessions.chmod(0o777)  # as Ray does
        assert sessions.parent == tmp_path and tmp_path.stat().st_mode & 0o777 == 0o700


def test_workers_of_ray_train_are_found():
    assert not _trains()
    with subprocess.Popen([f"{TRAIN_WORKER}.execute", "30"], executable="/bin/sleep") as worker:
        try:
            deadline_s = time.monotonic() + 30.0
            while not _trains() and time.monotonic() < deadline_s:  # a process that starts has no arguments yet
                time.sleep(0.01)
            assert _trains()
        finally:
            worker.kill()


@pytest.mark.parametrize("mode", [None, "", "disabled", "k8s"])
def test_token_mode_does_not_depend_on_defaults(mode):
    """Ray's default depends on its version, and on whether the cluster is local."""
    given = {} if mode is None else {"RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN": "another"}
    token = token_variables(bytes(32))
    found = variables(given, token)
    assert found["RAY_AUTH_MODE"] == "token" and found["RAY_AUTH_TOKEN"] == token["RAY_AUTH_TOKEN"] != "another"
