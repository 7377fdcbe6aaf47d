from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.record import RunFolder, RunSummary
from tfhet.simulate import ClusterFile, Fault, GroupFile, Simulation, run_dir, simulate
from tfhet.simulate.process_hosts import ProcessHosts

pytestmark = pytest.mark.timeout(60)

GROUPS = {"data_group": GroupFile(hosts=3), "dnn_group": GroupFile(hosts=2, ranks=2)}
SMALL = {"data_group": GroupFile(), "dnn_group": GroupFile()}

# A launcher that prints its arguments and variables.
PRINTS = """
import json, os, sys
names = ("SM_CURRENT_HOST", "SM_CURRENT_INSTANCE_GROUP", "HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "TFHET_PORTS",
         "TFHET_ADDRESSES", "TFHET_SECRET", "SM_CHANNELS", "PYTHONPATH", "LD_PRELOAD", "TFHET_HOST_FAULTS")
print(json.dumps({"arguments": sys.argv[1:], "cwd": os.getcwd(), **{name: os.environ.get(name) for name in names}}))
"""


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., list[str]]:
    """`command(code, *arguments)`: the command of a launcher that runs `code`."""

    def build(code: str = PRINTS, *arguments: str) -> list[str]:
        (tmp_path / "launcher.py").write_text(code)
        return [str(tmp_path / "launcher.py"), *arguments]

    return build


def simulated(cluster: ClusterFile, words: list[str], folder: Path, **options) -> tuple[RunSummary, list[str]]:
    """The summary, and all lines that were printed."""
    lines: list[str] = []
    return simulate(cluster, words, folder, on_line=lines.append, **options), lines


def printed(cluster: ClusterFile, words: list[str], folder: Path, **options) -> list[dict]:
    """The line of every launcher of a run of PRINTS."""
    _, lines = simulated(cluster, words, folder, **options)
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_names_depend_on_the_seed_and_ports_differ(command, tmp_path):
    cluster = ClusterFile("c", GROUPS, launcher={"data_host_workers": 2, "dnn_host_workers": 1})

    def groups(seed: int) -> tuple[str, ...]:
        hosts = Simulation(cluster, command(), tmp_path / "run", seed=seed).hosts
        assert [host.name for host in hosts] == [f"algo-{n}" for n in range(1, 6)]
        assert len({host.address for host in hosts}) == 5
        assert all(host.address.startswith("127.0.0.") and host.detour is None for host in hosts)
        workers = [port for host in hosts for port in host.ports.plane["workers"]]
        assert len(workers) == len(set(workers)) == 3 * 2 + 2
        assert len({(host.ports.control, host.ports.plane["dispatcher"]) for host in hosts}) == 1
        return tuple(host.group for host in hosts)

    assert len({groups(seed) for seed in range(8)}) > 1 and groups(3) == groups(3)


@pytest.mark.horovod
def test_launcher_runs_once_per_rank_or_data_host(command, tmp_path):
    cluster = ClusterFile("c", GROUPS, {"x": str(tmp_path)}, {"lease_s": 5})
    faults = [Fault.parse("partition:data-2:after=1")]
    found = printed(cluster, command(PRINTS, "--lease_s", "6", "--word"), tmp_path / "run", faults=faults)
    assert len(found) == 3 + 2 * 2
    ranks = sorted((int(one["HOROVOD_RANK"]), one["SM_CURRENT_HOST"]) for one in found if one["HOROVOD_RANK"])
    assert [rank for rank, _ in ranks] == [0, 1, 2, 3]
    assert ranks[0][1] == ranks[1][1] != ranks[2][1] == ranks[3][1]
    for one in found:
        assert (one["SM_CURRENT_INSTANCE_GROUP"] == "dnn_group") == (one["HOROVOD_RANK"] is not None)
        assert one["arguments"] == ["--lease_s", "5", "--lease_s", "6", "--word"]  # the user's come last
        assert one["SM_CHANNELS"] == '["x"]'
        assert os.path.samefile(one["cwd"], os.getcwd())
        assert one["PYTHONPATH"].split(":")[0].endswith(f"{one['SM_CURRENT_HOST']}/code")
    assert len({one["TFHET_SECRET"] for one in found}) == len({one["TFHET_ADDRESSES"] for one in found}) == 1
    assert len(found[0]["TFHET_SECRET"]) > 32
    ports = {one["SM_CURRENT_HOST"]: json.loads(one["TFHET_PORTS"]) for one in found}
    used = {port[name] for port in ports.values() for name in ("control", "dispatcher")}
    assert len(used) == 2 * 5, "with a partition every host reaches the leader at its own ports"


def test_host_with_a_fault_preloads_its_library(command, tmp_path):
    cluster = ClusterFile("c", SMALL, {"x": str(tmp_path)})
    faults = [Fault.parse(text) for text in ("slow-disk:data-1", "clock=+5s:data-1")]
    found = printed(cluster, command(), tmp_path / "run", faults=faults)
    by_group = {one["SM_CURRENT_INSTANCE_GROUP"]: one for one in found}
    assert "host_faults" in by_group["data_group"]["LD_PRELOAD"]
    control = Path(by_group["data_group"]["TFHET_HOST_FAULTS"])
    host = control.with_suffix("")
    lines = control.read_text().strip("\0").splitlines()
    assert lines[:3] == [f"r{tmp_path.resolve()}", f"w{host}", f"w{host}/checkpoints"] and len(lines) == 4
    assert "host_faults" not in (by_group["dnn_group"]["LD_PRELOAD"] or "")
    assert by_group["dnn_group"]["TFHET_HOST_FAULTS"] is None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no CPU affinity")
def test_process_host_has_its_cpus(command, tmp_path):
    code = "import os, time\nwhile len(os.sched_getaffinity(0)) > 1: time.sleep(0.01)"
    summary, _ = simulated(ClusterFile("c", {"only": GroupFile(cpus=1)}), command(code), tmp_path / "run")
    assert summary.exit_codes == {"algo-1/0": 0}


def test_record_has_logs_and_exit_codes(command, tmp_path):
    code = "import os, sys; print(os.environ['SM_CURRENT_HOST']); sys.exit(4)"
    cluster = ClusterFile("c", {"data_group": GroupFile(2), "dnn_group": GroupFile(1)}, {"training": "/nowhere"})
    summary, lines = simulated(cluster, command(code), tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    assert folder.hosts() == ["algo-1", "algo-2", "algo-3"]
    assert folder.log_path("algo-2").read_text() == "algo-2\n"
    assert sorted(summary.exit_codes.values()) == [4, 4, 4]
    assert sum(label.endswith("/0") for label in summary.exit_codes) == 1
    assert summary.exit_code == 4 and "exit code 4" in (summary.cause or "")
    assert summary == folder.read_summary() and folder.report_path.is_file()
    events = ["hosts.started", *3 * ["host.ended"], "launchers.gone"]
    assert [event["event"] for event in folder.events()] == events
    assert any("/nowhere" in line for line in lines), "a channel without a directory is reported"


def test_long_job_is_stopped(command, tmp_path):
    sleeps = command("import time; time.sleep(60)")
    summary, _ = simulated(ClusterFile("c", SMALL), sleeps, tmp_path / "r", max_run_s=0.3)
    assert (summary.exit_code, summary.status) == (1, "Stopped")
    assert "0.3 s" in (summary.cause or "") and summary.failure_reason == summary.cause
    assert set(summary.exit_codes.values()) == {-signal.SIGTERM}


@pytest.mark.parametrize(
    ("groups", "launcher", "words"),
    [
        ({"data_group": GroupFile(), "gpu": GroupFile()}, {}, []),
        ({"data_group": GroupFile(), "dnn_group": GroupFile(0)}, {}, []),
        ({"a": GroupFile()}, {}, ["--dnn_group", "b"]),
        ({"a": GroupFile()}, {}, ["--lease_s", "-1"]),
        ({"a": GroupFile()}, {"lease_s": "x"}, []),
    ],
)
def test_impossible_cluster_is_refused_at_once(groups, launcher, words, command, tmp_path):
    with pytest.raises(UsageError):
        simulate(ClusterFile("c", groups, launcher=launcher), command(PRINTS, *words), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_default_folder_is_named_after_the_cluster():
    folder = run_dir(ClusterFile("small", {}))
    assert folder.parent == Path("runs") and folder.name.startswith("small-")


def test_paused_reader_delays_nothing(command, tmp_path):
    code = """
import sys
from pathlib import Path
from tfhet.simulate import ClusterFile, GroupFile, simulate

simulate(ClusterFile("c", {"only": GroupFile()}), [sys.argv[1]], Path(sys.argv[2]))
"""
    folder = tmp_path / "run"
    (launcher,) = command("for line in range(2000):\n    print(line, '.' * 100)")  # more than two pipes hold
    words = [sys.executable, "-c", code, launcher, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as paused:
        try:
            until_s = time.monotonic() + 30
            while not (folder / "summary.json").exists() and time.monotonic() < until_s:
                time.sleep(0.05)
            assert json.loads((folder / "summary.json").read_text())["exit_codes"] == {"algo-1/0": 0}
            assert len(paused.communicate(timeout=30)[0].splitlines()) >= 2000
            assert paused.returncode == 0
        finally:
            paused.kill()


def test_signal_stops_the_writing_of_demonstration_data(command, tmp_path):
    code = """
import os, signal, sys
from pathlib import Path
from tfhet.errors import JobFailed
from tfhet.simulate import ClusterFile, GroupFile, simulate

cluster = ClusterFile("c", {"only": GroupFile()}, {"training": "digits/train"})
def on_line(line):
    if line.startswith("[simulate] writing"):
        signal.setitimer(signal.ITIMER_REAL, 0.3)
signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
try:
    simulate(cluster, [sys.argv[1]], Path(sys.argv[2]), on_line=on_line)
except JobFailed:
    sys.exit(7)
"""
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [sys.executable, "-c", code, *command("raise SystemExit(9)"), str(tmp_path / "run")]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 7, done.stderr
    assert not list((tmp_path / "cache").glob("tfhet/digits/16-shards"))


def test_stop_before_the_start_starts_no_host(command, tmp_path, monkeypatch):
    async def stopped(self: ProcessHosts, channels: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.2)  # the event loop handles it

    monkeypatch.setattr(ProcessHosts, "open", stopped)
    summary, _ = simulated(ClusterFile("c", GROUPS), command(), tmp_path / "run")
    assert (summary.exit_code, summary.cause, summary.status) == (1, "stopped on request", "Stopped")
    assert "hosts.started" not in (tmp_path / "run" / "events.jsonl").read_text()
