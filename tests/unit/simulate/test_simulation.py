from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.record import RunFolder
from tfhet.simulate import ClusterFile, Fault, GroupFile, Simulation, run_dir, simulate
from tfhet.simulate.drive import drive
from tfhet.simulate.process_hosts import ProcessHosts

pytestmark = pytest.mark.timeout(60)

GROUPS = {"data_group": GroupFile(hosts=3), "dnn_group": GroupFile(hosts=2, ranks=2)}

# A launcher that says what it was given.
TELLS = """
import json, os, sys
names = ("SM_CURRENT_HOST", "SM_CURRENT_INSTANCE_GROUP", "HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "TFHET_PORTS",
         "TFHET_ADDRESSES", "TFHET_SECRET", "SM_CHANNELS", "PYTHONPATH", "LD_PRELOAD", "TFHET_HOST_FAULTS")
print(json.dumps({"arguments": sys.argv[1:], "cwd": os.getcwd(), **{name: os.environ.get(name) for name in names}}))
"""

# One that ends on the dnn host when it has read that the data hosts have ended.
WAITS_FOR_THE_OTHERS = """
import os, pathlib, sys, time
events, until = pathlib.Path(sys.argv[2]), time.monotonic() + 30
while os.environ["SM_CURRENT_INSTANCE_GROUP"] == "dnn_group":
    if events.exists() and events.read_text().count("host.ended") == 2:
        break
    if time.monotonic() > until:
        sys.exit("events.jsonl does not say that the data hosts have ended")
    time.sleep(0.02)
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    file = tmp_path / "launcher.py"
    file.write_text(TELLS)
    return [str(file)]


def told(cluster: ClusterFile, command: list[str], folder: Path, **options) -> list[dict]:
    """The report of every launcher of a run about itself."""
    lines: list[str] = []
    simulate(cluster, command, folder, on_line=lines.append, **options)
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_names_are_dealt_out_by_the_seed_and_addresses_and_ports_are_everybodys_own(command, tmp_path):
    cluster = ClusterFile("c", GROUPS, launcher={"data_host_workers": 2, "dnn_host_workers": 1})
    dealt = set()
    for seed in range(8):
        hosts = Simulation(cluster, command, tmp_path / "run", seed=seed).hosts
        assert [host.name for host in hosts] == [f"algo-{n}" for n in range(1, 6)]
        assert len({host.address for host in hosts}) == 5
        assert all(host.address.startswith("127.0.0.") for host in hosts)
        workers = [port for host in hosts for port in host.ports.plane["workers"]]
        assert len(workers) == len(set(workers)) == 3 * 2 + 2
        assert len({(host.ports.control, host.ports.plane["dispatcher"]) for host in hosts}) == 1
        dealt.add(tuple(host.group for host in hosts))
    assert len(dealt) > 1
    again = Simulation(cluster, command, tmp_path / "run", seed=3).hosts
    assert [host.group for host in again] == [
        host.group for host in Simulation(cluster, command, tmp_path / "run", seed=3).hosts
    ]


@pytest.mark.horovod
def test_the_launcher_runs_once_on_a_data_host_and_once_per_rank_on_a_dnn_host(command, tmp_path):
    cluster = ClusterFile("c", GROUPS, {"x": str(tmp_path)}, {"lease_s": 5})
    said = told(cluster, [*command, "--lease_s", "6", "--word"], tmp_path / "run")
    assert len(said) == 3 + 2 * 2
    ranks = sorted((int(s["HOROVOD_RANK"]), s["SM_CURRENT_HOST"]) for s in said if s["HOROVOD_RANK"] is not None)
    assert [rank for rank, _ in ranks] == [0, 1, 2, 3]
    assert ranks[0][1] == ranks[1][1] != ranks[2][1] == ranks[3][1]
    for one in said:
        assert (one["SM_CURRENT_INSTANCE_GROUP"] == "dnn_group") == (one["HOROVOD_RANK"] is not None)
        assert one["arguments"] == ["--lease_s", "5", "--lease_s", "6", "--word"]  # the command line's comes last
        assert one["SM_CHANNELS"] == '["x"]'
        assert os.path.samefile(one["cwd"], os.getcwd())
        assert one["PYTHONPATH"].split(":")[0].endswith(f"{one['SM_CURRENT_HOST']}/code")
    assert len({one["TFHET_SECRET"] for one in said}) == len({one["TFHET_ADDRESSES"] for one in said}) == 1
    assert len(said[0]["TFHET_SECRET"]) > 32


@pytest.mark.horovod
def test_with_a_partition_every_host_but_the_chiefs_reaches_it_by_ports_of_its_own(command, tmp_path):
    cluster = ClusterFile("c", GROUPS)
    said = told(cluster, command, tmp_path / "run", faults=[Fault.parse("partition:data-2:after=1")])
    ports = {s["SM_CURRENT_HOST"]: json.loads(s["TFHET_PORTS"]) for s in said}
    chief = next(s["SM_CURRENT_HOST"] for s in said if s["HOROVOD_RANK"] == "0")
    used = [port[name] for port in ports.values() for name in ("control", "dispatcher")]
    assert len(set(used)) == 2 * 5
    hosts = {host.name: host for host in Simulation(cluster, command, tmp_path / "other").hosts}
    assert [name for name, host in hosts.items() if host.group == "dnn_group"][0] == chief
    assert all(host.detour is None for host in hosts.values())  # without one it is the chief's own


def test_only_a_host_with_a_fault_of_its_disk_or_clock_has_the_library_that_does_it(command, tmp_path):
    cluster = ClusterFile("c", {"data_group": GroupFile(), "dnn_group": GroupFile()}, {"x": str(tmp_path)})
    faults = [Fault.parse(text) for text in ("slow-disk:data-1", "clock=+5s:data-1")]
    said = told(cluster, command, tmp_path / "run", faults=faults)
    by_group = {s["SM_CURRENT_INSTANCE_GROUP"]: s for s in said}
    assert "host_faults" in by_group["data_group"]["LD_PRELOAD"]
    control = Path(by_group["data_group"]["TFHET_HOST_FAULTS"])
    host = control.with_suffix("")
    lines = control.read_text().lstrip("\0").rstrip("\0").splitlines()
    assert lines[:3] == [f"r{tmp_path.resolve()}", f"w{host}", f"w{host}/checkpoints"] and len(lines) == 4
    assert "host_faults" not in (by_group["dnn_group"]["LD_PRELOAD"] or "")
    assert by_group["dnn_group"]["TFHET_HOST_FAULTS"] is None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no CPU affinity")
def test_a_process_host_is_tied_to_its_cpus(tmp_path):
    launcher, lines = tmp_path / "launcher.py", []
    launcher.write_text("import os, time; time.sleep(1); print(len(os.sched_getaffinity(0)))")
    simulate(ClusterFile("c", {"only": GroupFile(cpus=1)}), [str(launcher)], tmp_path / "run", on_line=lines.append)
    assert "1" in lines


def test_every_host_has_a_log_and_the_record_says_how_each_ended(tmp_path):
    launcher = tmp_path / "launcher.py"
    launcher.write_text("import os, sys; print(os.environ['SM_CURRENT_HOST']); sys.exit(4)")
    cluster = ClusterFile("c", {"data_group": GroupFile(2), "dnn_group": GroupFile(1)})
    summary = simulate(cluster, [str(launcher)], tmp_path / "run", on_line=lambda line: None)
    folder = RunFolder(tmp_path / "run")
    assert folder.hosts() == ["algo-1", "algo-2", "algo-3"]
    assert folder.log_path("algo-2").read_text() == "algo-2\n"
    assert sorted(summary.exit_codes.values()) == [4, 4, 4]
    assert sum(label.endswith("/0") for label in summary.exit_codes) == 1
    assert summary.exit_code == 4
    assert "no launcher said why" in summary.cause and "exit code 4" in summary.cause
    assert summary == folder.read_summary()
    assert folder.report_path.is_file()


def test_the_simulator_writes_its_events_while_the_hosts_run(tmp_path):
    launcher = tmp_path / "launcher.py"
    launcher.write_text(WAITS_FOR_THE_OTHERS)
    events = tmp_path / "run" / "events.jsonl"
    cluster = ClusterFile("c", {"data_group": GroupFile(2), "dnn_group": GroupFile(1)})
    summary = simulate(cluster, [str(launcher), "--events", str(events)], tmp_path / "run", on_line=lambda line: None)
    assert set(summary.exit_codes.values()) == {0}
    found = [event["event"] for event in RunFolder(tmp_path / "run").events()]
    assert found == ["hosts.started", *3 * ["host.ended"], "launchers.gone"]


def test_a_job_that_runs_too_long_is_ended(tmp_path):
    launcher = tmp_path / "launcher.py"
    launcher.write_text("import time; time.sleep(60)")
    cluster = ClusterFile("c", {"data_group": GroupFile(1), "dnn_group": GroupFile(1)})
    summary = simulate(cluster, [str(launcher)], tmp_path / "run", max_run_s=0.3, on_line=lambda line: None)
    assert summary.exit_code == 1
    assert summary.cause == "the job ran longer than 0.3 s"
    assert set(summary.exit_codes.values()) == {-signal.SIGTERM}


def test_a_channel_that_is_not_there_is_said_and_left_out(command, tmp_path):
    lines: list[str] = []
    cluster = ClusterFile("c", {"only": GroupFile()}, {"training": str(tmp_path / "nowhere")})
    simulate(cluster, command, tmp_path / "run", on_line=lines.append)
    assert f"[simulate] channel training: {tmp_path / 'nowhere'} is no directory; the job will not see it" in lines


@pytest.mark.parametrize(
    ("cluster", "words", "message"),
    [
        (ClusterFile("c", {"data_group": GroupFile(), "gpu": GroupFile()}), [], "no host trains: there is no group"),
        (
            ClusterFile("c", {"data_group": GroupFile(), "dnn_group": GroupFile(0)}),
            [],
            "with hosts; groups: data_group",
        ),
        (ClusterFile("c", {"a": GroupFile()}), ["--dnn_group", "b"], "there is no group 'b'"),
        (ClusterFile("c", {"a": GroupFile()}), ["--lease_s", "-1"], "--lease_s must be positive"),
        (ClusterFile("c", {"a": GroupFile()}, launcher={"lease_s": "x"}), [], "--lease"),
    ],
)
def test_a_cluster_that_cannot_run_is_refused_before_anything_is_written(cluster, words, message, command, tmp_path):
    with pytest.raises(UsageError) as caught:
        simulate(cluster, [*command, *words], tmp_path / "run")
    assert message in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_the_record_goes_to_runs_when_nobody_says_where():
    assert run_dir(ClusterFile("small", {})).parent == Path("runs")
    assert run_dir(ClusterFile("small", {})).name.startswith("small-")


def test_drive_runs_inside_a_running_loop_too():
    async def work(stop: asyncio.Event) -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    async def notebook() -> str:
        return drive(work)

    assert drive(work) == threading.current_thread().name
    assert asyncio.run(notebook()).startswith("simulate")


def test_a_reader_that_pauses_holds_up_neither_the_hosts_nor_their_record(tmp_path):
    code = """
import sys
from pathlib import Path
from tfhet.simulate import ClusterFile, GroupFile, simulate

simulate(ClusterFile("c", {"only": GroupFile()}), [sys.argv[1]], Path(sys.argv[2]))
"""
    launcher, folder = tmp_path / "launcher.py", tmp_path / "run"
    launcher.write_text("for line in range(2000):\n    print(line, '.' * 100)")  # more than two pipes hold
    words = [sys.executable, "-c", code, str(launcher), str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as paused:
        try:
            until_s = time.monotonic() + 30
            while not (folder / "summary.json").exists() and time.monotonic() < until_s:
                time.sleep(0.05)
            assert json.loads((folder / "summary.json").read_text())["exit_codes"] == {"algo-1/0": 0}
            assert len(paused.communicate(timeout=30)[0].splitlines()) >= 2000  # now it reads on
            assert paused.returncode == 0
        finally:
            paused.kill()


def test_a_signal_while_the_demonstration_data_is_written_stops_it(tmp_path):
    code = """
import os, signal, sys
from pathlib import Path
from tfhet.errors import JobFailed
from tfhet.simulate import ClusterFile, GroupFile, simulate

cluster = ClusterFile("c", {"only": GroupFile()}, {"training": "digits/train"})
def heard(line):
    if line.startswith("[simulate] writing"):
        signal.setitimer(signal.ITIMER_REAL, 0.3)
signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
try:
    simulate(cluster, [sys.argv[1]], Path(sys.argv[2]), on_line=heard)
except JobFailed as error:
    print(error)
"""
    launcher = tmp_path / "launcher.py"
    launcher.write_text("raise SystemExit(9)")
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [sys.executable, "-c", code, str(launcher), str(tmp_path / "run")]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout.strip() == "stopped while the demonstration data was written", done.stderr
    assert not list((tmp_path / "cache").glob("tfhet/digits/16-shards"))


def test_a_stop_before_any_host_was_started_is_said_and_starts_none(command, tmp_path, monkeypatch):
    async def stopped(self: ProcessHosts, channels: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.2)  # the loop hears of it

    monkeypatch.setattr(ProcessHosts, "open", stopped)
    summary = simulate(ClusterFile("c", GROUPS), command, tmp_path / "run", on_line=lambda line: None)
    assert (summary.exit_code, summary.cause) == (1, "stopped on request")
    assert summary.status == "Stopped"
    assert "hosts.started" not in (tmp_path / "run" / "events.jsonl").read_text()


def test_a_job_that_runs_too_long_is_stopped_and_said_to_have(tmp_path):
    launcher = tmp_path / "launcher.py"
    launcher.write_text("import time; time.sleep(60)")
    cluster = ClusterFile("c", {"dnn_group": GroupFile(1)})
    summary = simulate(cluster, [str(launcher)], tmp_path / "run", max_run_s=1.0, on_line=lambda line: None)
    assert (summary.status, summary.failure_reason) == ("Stopped", "the job ran longer than 1 s")
