"""Clusters of containers: a network, a root and process numbers for each host, with the real SageMaker toolkit."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
import stranger

from tfhet.container import kernel
from tfhet.record import RunFolder
from tfhet.simulate import ClusterFile, Fault, GroupFile, host_container, simulate
from tfhet.submit import source_dir

DIGITS = {"training": "digits/train", "validation": "digits/validation"}
SMALL = ["--model", "small_cnn", "--chain", "digits"]

pytestmark = [pytest.mark.timeout(280), pytest.mark.horovod]


def cluster(data: int = 1, dnn: int = 1, ranks: int = 2, channels=DIGITS, **limits) -> ClusterFile:
    groups = {"data_group": GroupFile(hosts=data, **limits), "dnn_group": GroupFile(hosts=dnn, ranks=ranks, **limits)}
    return ClusterFile("contained", groups, channels)


LOCKS = Path("/run/tfhet")


def tags_in_use() -> set[str]:
    """Those of simulators that live: others may run on this machine."""
    found = set()
    for lock in LOCKS.glob("*.lock") if LOCKS.is_dir() else ():
        with contextlib.suppress(FileNotFoundError), open(lock) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.add(lock.stem)
    return found


def remains(place: Path) -> list[str]:
    """Traces on this machine that a simulator whose runs are below `place` could have left."""
    groups = list(Path("/sys/fs/cgroup").glob("**/tfhet-*"))
    used = tags_in_use()
    found = [str(path) for path in groups if path.name.split("-")[1] not in used]
    found += [str(lock) for lock in LOCKS.glob("*.lock") if lock.stem not in used] if LOCKS.is_dir() else []
    found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(place) in line]
    found += [str(path) for path in place.glob("**/.scratch-*")]
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if "tfhet.container.container" in words and str(place) in words:
            found.append(words)
    return found


@pytest.fixture
def contained(tmp_path: Path, repository: Path):
    """`contained(cluster, *launcher_arguments, **how)`: runs to the end, and checks that nothing is left."""
    start = "toolkit"
    if lacking := kernel.missing(start, tmp_path):
        pytest.skip("; ".join(f"{feature.name}: {feature.what_to_do}" for feature in lacking))

    before = set(remains(tmp_path))  # somebody else's

    def run(shape: ClusterFile, *arguments: object, faults=(), code=repository, launcher="scripts/launcher.py", **how):
        lines: list[str] = []
        command = [launcher, *map(str, arguments)]
        summary = simulate(
            shape,
            command,
            tmp_path / "record",
            hosts="namespace",
            code=code,
            faults=[Fault.parse(text) for text in faults],
            on_line=lines.append,
            **{"max_run_s": 240.0, **how},
        )
        print("\n".join(lines))
        assert set(remains(tmp_path)) <= before
        return summary, lines

    return run


def own_processes() -> list[tuple[int, list[str]]]:
    """Numbers and command lines of the processes of this test: others may run a cluster at the same time."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append((process.pid, process.cmdline()))
    return found


def epochs(summary) -> list[tuple[int, int, int]]:
    return [(epoch["once"], epoch["missing"], epoch["repeated"]) for epoch in summary.epochs]


@pytest.mark.slow
def test_launchers_form_a_ring_between_containers(contained, tmp_path):
    summary, lines = contained(cluster(dnn=2), *SMALL, "--epochs", 1, start="alone")
    assert summary.exit_code == 0, summary.cause
    assert (summary.status, summary.failure_reason) == ("Completed", None)
    assert summary.ranks == 4
    assert epochs(summary) == [(1437, 0, 0)]
    assert len({line.split("weights=")[1] for line in lines if " weights=" in line}) == 1
    assert set(summary.host_cpu_s) == {"algo-1", "algo-2", "algo-3"}
    assert min(summary.host_cpu_s.values()) > 0
    assert set(summary.host_use) == set(summary.host_cpu_s)
    assert min(use["memory_peak_bytes"] for use in summary.host_use.values()) > 10e6
    assert (
        min(sum(use[way] for use in summary.host_use.values()) for way in ("sent_bytes", "received_bytes"))
        > 1437 * 3072
    )
    assert len(list((tmp_path / "record" / "hosts").glob("*/model/1/saved_model.pb"))) == 1


@pytest.mark.slow
def test_partition_and_packet_loss_lose_no_example(contained):
    faults = ["partition:data_group:after=1:for=1.5", "loss=1%:data-1"]
    arguments = [*SMALL, "--epochs", 3, "--lease_s", 5]
    summary, lines = contained(cluster(data=2), *arguments, start="alone", faults=faults)
    assert summary.exit_code == 0, summary.cause
    assert epochs(summary) == [(1437, 0, 0)] * 3
    assert {fault for fault in faults if any(f"fault {fault}: " in line for line in lines)} == set(faults)
    assert not [line for line in lines if "could not be done" in line]


@pytest.mark.slow
def test_unauthenticated_tensorflow_gets_nothing(contained):
    said: dict[str, str] = {}

    def ask(name: str, target: str, pid: int) -> None:
        said[name] = stranger.visit(target, "nsenter", f"--target={pid}", "--net", "--mount", "--root", "--wd")

    def visit() -> None:
        workers, ranks, end_s = [], [], time.monotonic() + 120.0
        while not (workers and ranks):
            assert time.monotonic() < end_s, "no worker and no rank came within 120 s"
            time.sleep(0.2)
            every = own_processes()
            workers = [words for _, words in every if "tfhet.planes.tf_service.server" in words and "worker" in words]
            ranks = [pid for pid, words in every if "tfhet.trainer" in words]
        told = dict(zip(workers[0][4::2], workers[0][5::2], strict=False))
        targets = {"dispatcher": told["--dispatcher"], "worker": f"{told['--address']}:{told['--port']}"}
        asking = [threading.Thread(target=ask, args=(*target, ranks[0])) for target in targets.items()]
        [thread.start() for thread in asking]
        [thread.join() for thread in asking]

    visitor = threading.Thread(target=visit, daemon=True)
    visitor.start()
    faults = ["stranger:data-1", "stranger:dnn-1:after=5"]
    job = ["--model", "emulated", "--step_ms", 60, "--batch_size", 32, "--chain", "none", "--validation", "none"]
    summary, lines = contained(cluster(), *job, "--epochs", 30, start="alone", faults=faults)
    assert summary.exit_code == 0, summary.cause
    assert epochs(summary) == [(1437, 0, 0)] * 30
    visitor.join(30.0)
    assert said == {"dispatcher": stranger.ASKS, "worker": stranger.ASKS}
    assert len([line for line in lines if " bytes at most" in line]) == 3


@pytest.mark.slow
def test_host_has_the_limits_of_the_file(contained, script):
    shape = cluster(dnn=1, ranks=1, channels={}, cpus=0.5, memory_mib=4000)
    summary, lines = contained(shape, "--train_script", script("limits"), "--ready_timeout_s", 120, start="alone")
    assert summary.exit_code == 0, summary.cause
    assert summary.not_limited == ()
    (told,) = [json.loads(line.split("limits: ")[1]) for line in lines if "limits: " in line]
    assert told["host"] == told["hostname"]
    assert told["interfaces"] == ["eth0", "lo"]
    assert told["cpus_of_a_busy_loop"] < 0.55
    assert told["processes"] < 12
    assert summary.limits[told["host"]]["cpus"] == 0.5


def test_out_of_memory_kill_is_recorded(contained, script):
    shape = cluster(ranks=1, channels={}, memory_mib=900)
    summary, lines = contained(shape, "--train_script", script("ends"), "--how", "hungry", start="alone")
    assert summary.status == "Failed"
    killed = {name: use["out_of_memory_kills"] for name, use in summary.host_use.items()}
    (told,) = [line for line in lines if "the kernel killed" in line]
    assert sorted(killed.values()) == [0, 1] and "900 MiB" in told
    assert max(killed, key=killed.__getitem__) in told


def test_failed_container_is_the_cause(contained, script, monkeypatch):
    monkeypatch.setattr(host_container, "carried", lambda *given: ["/nowhere"])
    arguments = ["--train_script", script("ends"), "--how", "sleep"]
    summary, _ = contained(cluster(ranks=1, channels={}), *arguments, start="alone")
    assert (summary.exit_code, summary.status) == (1, "Failed")
    assert "could not be made: mount overlay" in summary.cause and "/nowhere" in summary.cause
    assert summary.failure_reason == summary.cause


@pytest.mark.slow
def test_leftovers_of_a_killed_simulator_are_swept(contained, tmp_path, repository, script):
    file = tmp_path / "cluster.yaml"
    file.write_text("groups: {data_group: {hosts: 1}, dnn_group: {hosts: 1}}")
    run = ["simulate", str(file), "--hosts", "namespace", "--start", "alone", "--run-dir", str(tmp_path / "killed")]
    words = [sys.executable, "-m", "tfhet", *run, "--", str(repository / "scripts/launcher.py")]
    log = tmp_path / "log"
    with open(log, "wb") as file:
        env = {**os.environ, "PYTHONPATH": str(repository)}
        arguments = ["--train_script", str(script("ends")), "--how", "sleep"]
        process = subprocess.Popen([*words, *arguments], stdout=file, stderr=subprocess.STDOUT, env=env)
    until = time.monotonic() + 90
    while "training rank=" not in log.read_text():
        assert process.poll() is None and time.monotonic() < until, log.read_text()
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until = time.monotonic() + 20
    while any("tfhet.container.container" in thing for thing in remains(tmp_path)):
        assert time.monotonic() < until, remains(tmp_path)
        time.sleep(0.1)
    left = " ".join(remains(tmp_path))
    assert all(thing in left for thing in ("cgroup", ".lock", ".scratch-"))
    arguments = ["--train_script", script("ends"), "--how", "done"]
    summary, _ = contained(cluster(ranks=1, channels={}), *arguments, start="alone")
    assert summary.exit_code == 0, summary.cause


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.timeout(500)  # seven processes on each of three hosts, on whatever CPUs there are
def test_toolkit_trains_over_mpi(contained, tmp_path, repository):
    code = tmp_path / "source_dir"
    source_dir.make(code)
    modes = {"training": "FastFile", "validation": "File"}
    how = {"code": code, "launcher": "launcher.py", "input_modes": modes, "max_run_s": 420.0}
    summary, lines = contained(cluster(dnn=2), *SMALL, "--epochs", 1, **how)
    assert summary.exit_code == 0, summary.cause
    assert summary.status == "Completed"
    assert summary.exit_codes == {f"algo-{n}": 0 for n in range(1, 4)}
    assert summary.ranks == 4
    assert epochs(summary) == [(1437, 0, 0)]
    assert len({line.split("weights=")[1] for line in lines if " weights=" in line}) == 1
    assert sum("Successfully installed tfhet" in line for line in lines) == 3
    assert len(list((tmp_path / "record" / "hosts").glob("*/model/1/saved_model.pb"))) == 1
    ended_well = (tmp_path / "record" / "hosts").glob("*/output/success")
    assert {path.parts[-3] for path in ended_well} == set(summary.exit_codes)


@pytest.mark.slow
@pytest.mark.mpi
def test_failing_rank_under_the_toolkit(contained, script, tmp_path):
    summary, lines = contained(cluster(dnn=2), "--train_script", script("ends"), "--how", "exit", "--rank", 3)
    assert summary.status == "Failed"
    assert summary.exit_code != 0
    assert "rank 3: exit code 3" in summary.failure_reason
    events = list(RunFolder(tmp_path / "record").events())
    ended = {event["host"]: event["time_s"] for event in events if event["event"] == "host.ended"}
    assert len(ended) == 3
    # The toolkit's second dnn host waits for a file that nobody but our launchers writes when the job has failed.
    assert max(ended.values()) - min(ended.values()) < 50
    assert sum("status file found. Exit gracefully" in line for line in lines) == 1


@pytest.mark.slow
@pytest.mark.mpi
def test_stopped_toolkit_training_leaves_a_checkpoint(contained, tmp_path):
    kept = tmp_path / "checkpoints"
    summary, _ = contained(
        cluster(dnn=1), *SMALL, "--epochs", 500, faults=["sigterm:host@dnn-1:after=4"], checkpoints=kept
    )
    assert summary.exit_code == 143
    assert any(kept.iterdir())
