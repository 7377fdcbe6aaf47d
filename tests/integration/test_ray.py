"""Whole jobs whose script has a Ray cluster, and what becomes of them when something is lost.

The launcher of AWS for Ray on heterogeneous jobs (aws-samples, launcher.py, as of July 2026) has five holes. A test
each, named `test_hole_...`, says in its docstring what that launcher does there.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import psutil
import pytest
from sockets import is_local, listening_below

from tfhet.container import kernel
from tfhet.ray import DATA_HOSTS_FIRST
from tfhet.simulate import ClusterFile, GroupFile, simulate

pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]
RAY = ("--strategy", "ray", "--lease_s", 4)
ONE, TWO = {"data": 1, "ranks": 1, "channels": {}}, {"data": 2, "ranks": 1, "channels": {}}
SECRET = "not-to-be-seen-4711"


def found(run) -> dict:
    """The results that the script wrote at its end."""
    assert run.summary.exit_code == 0, run.summary.cause
    (path,) = run.output("found.json")
    return json.loads(path.read_text())


def codes(run) -> set[int]:
    return set(run.summary.exit_codes.values())


@pytest.fixture(scope="module")
def whole(simulated, script, tmp_path_factory):
    """A run of two data hosts and two dnn hosts, in an environment with a secret."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATABASE_PASSWORD", SECRET)
        return simulated(*RAY, "--train_script", script("ray_cluster"), dnn=2, **TWO)


def test_encrypted_cluster_answers_nothing_in_clear(whole, simulated, script):
    encrypted = (*RAY, "--data_plane_encryption", "true", "--train_script", script("ray_cluster"))
    wrote = found(simulated(*encrypted, **ONE))
    assert wrote["ids"] == list(range(80)) and not wrote["answers_in_clear"]
    assert found(whole)["answers_in_clear"]


def test_prints_of_tasks_reach_the_output(whole):
    assert whole.found(r"\[algo-\d/0\] \S*\(\S*MapBatches\(where\) pid=\d+.*\)\S* mapped (\d+)")


def test_script_has_the_cluster_of_all_hosts(whole):
    wrote = found(whole)
    assert wrote["ids"] == list(range(80))
    by_role = {
        role: {one["ip"] for one in wrote["nodes"] if one["labels"]["tfhet-role"] == role}
        for role in ("data", "dnn", "node")
    }
    assert [len(by_role[role]) for role in ("data", "dnn", "node")] == [2, 1, 1]
    assert set(wrote["at"]) <= by_role["data"]
    groups = {one["labels"]["tfhet-group"] for one in wrote["nodes"]}
    assert groups == {"data_group", "dnn_group"}
    assert wrote["resources"]["CPU"] == 2 * len(os.sched_getaffinity(0))
    assert codes(whole) == {0} and len(whole.summary.exit_codes) == 4
    assert max(used["object_store_bytes_peak"] for used in whole.summary.plane_use.values()) >= 40_000_000


def test_hole_secrets_reach_neither_tasks_nor_logs(whole):
    """AWS's launcher hands the whole environment of the head to all workers by `runtime_env`, and logs it."""
    variables = found(whole)["variables"]
    assert "DATABASE_PASSWORD" not in variables
    token = variables["RAY_AUTH_TOKEN"]
    assert variables["RAY_AUTH_MODE"] == "token" and re.fullmatch("[0-9a-f]{64}", token)
    files = [path for path in whole.folder.path.rglob("*") if path.is_file() and path.name != "found.json"]
    assert files
    for path in files:
        content = path.read_bytes()
        assert SECRET.encode() not in content and token.encode() not in content, path
    assert not any(token in line or SECRET in line for line in whole.lines)


@pytest.fixture
def waiting(started, script):
    """A job whose script waits to be stopped, once it has begun."""
    job = started(*RAY, "--train_script", script("ray_cluster"), "--until_stopped", 1, **ONE)
    job.wait_for("(begun)", deadline_s=100)
    return job


def ray_processes(job) -> list[psutil.Process]:
    every = psutil.Process(job.process.pid).children(recursive=True)
    return [one for one in every if one.status() != psutil.STATUS_ZOMBIE and "RAY_AUTH_TOKEN" in one.environ()]


STRANGER = "import ray, sys; ray.init(sys.argv[1], logging_level='ERROR'); print('IN', ray.cluster_resources())"


def test_hole_nothing_answers_without_the_token(waiting):
    """AWS's launcher serves the dashboard at 0.0.0.0:8265, with no RAY_AUTH_MODE: whoever reaches it runs code."""
    processes = ray_processes(waiting)
    variables = processes[0].environ()
    token = variables["RAY_AUTH_TOKEN"]
    assert not [one for one in processes if any(token in word for word in one.cmdline())]
    sockets = listening_below(waiting.process.pid)
    assert sockets and [one for one in sockets if not is_local(one.address)] == []
    assert not [one for one in sockets if "dashboard/dashboard.py" in one.command]
    (head,) = {one.environ()["RAY_ADDRESS"] for one in processes if "RAY_ADDRESS" in one.environ()}
    base = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    for given in ({}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}):
        command = [sys.executable, "-c", STRANGER, head]
        env = {**base, **given, "RAY_gcs_rpc_server_connect_timeout_s": "5"}
        asked = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert asked.returncode != 0 and "IN" not in asked.stdout, asked.stdout
        assert "uthenticat" in asked.stderr, asked.stderr[-2000:]
    env = {**base, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    asked = subprocess.run([sys.executable, "-c", STRANGER, head], env=env, capture_output=True, text=True, timeout=60)
    assert "IN" in asked.stdout, asked.stderr[-2000:]
    waiting.process.send_signal(signal.SIGTERM)
    assert waiting.wait() != 0


def test_hole_stop_request_lets_the_script_save(waiting):
    """AWS's launcher answers SIGTERM with code 0, and its script is not asked to save."""
    waiting.process.send_signal(signal.SIGTERM)
    assert waiting.wait() != 0
    assert [path.read_text() for path in waiting.folder.path.glob("hosts/*/output/data/stopped")] == ["saved"]
    summary = json.loads((waiting.folder.path / "summary.json").read_text())
    assert set(summary["exit_codes"].values()) == {128 + signal.SIGTERM}


def test_hole_missing_host_ends_the_job(simulated, script):
    """AWS's launcher logs hosts that have not joined after 300 s, and goes on: "Proceeding with n/m"."""
    words = ("--ready_timeout_s", 20, "--train_script", script("ray_cluster"))
    run = simulated(*RAY, *words, faults=("late-join:data-1:after=600",), max_run_s=60, **ONE)
    assert run.summary.exit_code == 1
    assert "did not join" in (run.summary.cause or "") and "20 s" in (run.summary.cause or "")
    assert "begun" not in "\n".join(run.lines)


def test_hole_all_hosts_end_with_the_script(simulated, script):
    """AWS's launcher lets workers poll the head every 10 s, without end, and end with code 0 whatever happened."""
    run = simulated(*RAY, "--train_script", script("ray_cluster"), "--raises", 1, **ONE)
    assert "ValueError: the model is upside down" in (run.summary.cause or "")
    assert codes(run) == {1} and set(run.failures()) == set(run.summary.exit_codes)


@pytest.mark.slow
def test_tasks_run_on_data_hosts_first(simulated, script):
    """Without that, a host of one CPU runs a third of them."""
    options = json.dumps(dict(DATA_HOSTS_FIRST))
    given = ("--data_host_cpus", 2, "--dnn_host_cpus", 1, "--blocks", 80, "--options", options)
    wrote = found(simulated(*RAY, "--train_script", script("ray_cluster"), *given, **ONE))
    role = {one["ip"]: one["labels"]["tfhet-role"] for one in wrote["nodes"]}
    rows = {role[ip]: count for ip, count in wrote["at"].items()}
    assert sum(rows.values()) == 800 and rows["data"] >= 3 * rows.get("dnn", 0)


@pytest.mark.slow
def test_tasks_of_lost_nodes_run_elsewhere(simulated, script):
    faults = ("kill:ray@data-1:from=scripts:after=4", "kill:host@data-2:from=scripts:after=6")
    words = ("--train_script", script("ray_cluster"), "--blocks", 400)
    run = simulated(*RAY, *words, faults=faults, **TWO)
    assert found(run)["ids"] == list(range(4000))
    assert run.summary.restarts == 1 and len(run.summary.lost_hosts) == 1


@pytest.mark.slow
def test_lost_head_ends_the_job(simulated, script):
    words = ("--train_script", script("ray_cluster"), "--until_stopped", 1)
    run = simulated(*RAY, *words, faults=("kill:ray@dnn-1:from=scripts:after=2",), **ONE)
    assert codes(run) == {128 + signal.SIGKILL}
    assert re.search(r"ray on \S+ ended by itself \(SIGKILL", run.summary.cause or ""), run.summary.cause


READS = ("--strategy", "torch", "--data_plane", "ray", "--lease_s", 4)


def wrote_by_ranks(run) -> list[dict]:
    assert run.summary.exit_code == 0, run.summary.cause
    return [json.loads(path.read_text()) for path in run.output("ray-*.json")]


def test_ranks_read_every_example_once(simulated, script):
    words = ("--train_script", script("ray_reads"), "--epochs", 2, "--examples", 388)
    run = simulated(*READS, *words, data=1, dnn=2, ranks=1, channels={})
    first, second = wrote_by_ranks(run)
    for one, other in zip(first["epochs"], second["epochs"], strict=True):
        assert [len(one), len(other)] == [192, 192], "24 batches each, of 49"
        assert len(set(one + other)) == 384 and set(one + other) <= set(range(388))
    assert sorted(first["held_out"] + second["held_out"]) == list(range(388))
    assert first["left"] == second["left"] == 2 and not first["tensorflow"]
    for epoch in run.summary.epochs[:2]:
        assert (epoch["expected"], epoch["once"], epoch["repeated"]) == (388, 384, 0)
    assert run.summary.steps and run.summary.wait_pct is not None and run.summary.batch_size == 8


def test_example_trains_with_equal_weights(simulated, repository):
    words = ("--train_script", repository / "examples" / "ray-vit" / "train.py", "--images", 384, "--epochs", 1)
    run = simulated(*READS, *words, data=1, ranks=2, channels={})
    assert run.summary.exit_code == 0, run.summary.cause
    found = run.found(r"rank=(\d) steps=(\d+) weights=(\w+)")
    assert sorted((rank, steps) for rank, steps, _ in found) == [("0", "6"), ("1", "6")]
    assert len({weights for _, _, weights in found}) == 1
    assert [(epoch["once"], epoch["expected"]) for epoch in run.summary.epochs] == [(384, 384)]
    assert sum(used["spilled_bytes"] for used in run.summary.plane_use.values()) == 0


@pytest.mark.slow
def test_exception_in_a_task_is_the_cause(simulated, script):
    words = ("--train_script", script("ray_reads"), "--raises_at", 77)
    run = simulated(*READS, *words, data=1, ranks=1, channels={})
    assert run.summary.exit_code == 1
    assert "the picture 77 is upside down" in (run.summary.cause or "")
    assert any("in pictures" in line for line in run.lines), "the traceback of the task"


@pytest.mark.slow
def test_ranks_stop_on_request(started, script):
    job = started(*READS, "--train_script", script("ray_reads"), "--epochs", 500, **ONE)
    job.wait_for("(first batch)", deadline_s=100)
    job.process.send_signal(signal.SIGTERM)
    assert job.wait() != 0
    summary = json.loads((job.folder.path / "summary.json").read_text())
    assert set(summary["exit_codes"].values()) == {128 + signal.SIGTERM}


@pytest.mark.slow
def test_ranks_read_despite_lost_hosts(simulated, script):
    faults = ("kill:ray@data-1:from=scripts:after=8", "kill:host@data-2:from=scripts:after=10")
    words = ("--train_script", script("ray_reads"), "--epochs", 3, "--examples", 4000)
    run = simulated(*READS, *words, data=2, ranks=1, channels={}, faults=faults)
    (wrote,) = wrote_by_ranks(run)
    assert [sorted(epoch) for epoch in wrote["epochs"]] == [list(range(4000))] * 3
    assert run.summary.restarts == 1 and len(run.summary.lost_hosts) == 1


@pytest.mark.slow
@pytest.mark.parametrize("start", ["toolkit", "alone"])
def test_in_containers_with_networks_of_their_own(tmp_path, repository, start):
    if lacking := kernel.missing("toolkit" if start == "toolkit" else "namespace", tmp_path):
        pytest.skip("; ".join(f"{feature.name}: {feature.what_to_do}" for feature in lacking))
    dnn = 1 if start == "toolkit" else 2
    groups = {"data_group": GroupFile(hosts=1), "dnn_group": GroupFile(hosts=dnn, ranks=1)}
    command = ["scripts/launcher.py", *map(str, RAY), "--train_script", "tests/integration/scripts/ray_cluster.py"]
    lines: list[str] = []
    how = {"hosts": "namespace", "start": start, "code": repository}
    summary = simulate(
        ClusterFile("contained", groups, {}), command, tmp_path / "record", on_line=lines.append, max_run_s=200, **how
    )
    print("\n".join(lines))
    assert summary.exit_code == 0, summary.cause
    (path,) = tmp_path.glob("record/hosts/*/output/data/found.json")
    wrote = json.loads(path.read_text())
    assert wrote["ids"] == list(range(80)) and len(wrote["nodes"]) == 1 + dnn
    assert {one["ip"].rpartition(".")[0] for one in wrote["nodes"]} == {"10.77.0"}
