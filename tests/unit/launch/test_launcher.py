"""Whole launchers of one-host jobs, in this process; the scripts that they run need no TensorFlow."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from prometheus_text import read

from tfhet.cluster import HostPaths, check_free, free_ports
from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.launch import main
from tfhet.launch.launcher import Launcher
from tfhet.launch.output import file_writer
from tfhet.messages import HostLine
from tfhet.planes.cpus import left_by, usable
from tfhet.record import RunFolder, RunSummary
from tfhet.simulate.other_jobs import leave_earlier_job

pytestmark = pytest.mark.timeout(60)

LAUNCHER = "import sys; from tfhet.launch import main; sys.exit(main())"
NOISE = "2026-11-23 05:45:41.5: I tensorflow/core/util/port.cc:113] oneDNN custom operations are on."


@pytest.fixture
def record(tmp_path) -> RunFolder:
    return RunFolder(tmp_path / "t1" / "output" / "data" / "tfhet")


@pytest.fixture
def failure(tmp_path) -> Callable[[], str]:
    return lambda: (tmp_path / "t1" / "output" / "failure").read_text()


@pytest.fixture
def prepared(environment_of, tmp_path):
    """`prepared(code)`: the argument that runs a script, and the environment of a one-host job."""

    def prepare(code: str, **variables: str) -> tuple[list[str], dict[str, str]]:
        (tmp_path / "train.py").write_text(code)
        env = {**os.environ, **environment_of("t1", data=()), **variables}
        return ["--train_script", str(tmp_path / "train.py")], env

    return prepare


@pytest.fixture
def launch(prepared, monkeypatch):
    """`launch(code, *arguments)`: the exit code of a one-host job, whose page is not made unless `has_page`."""

    def run(code: str, *arguments: str, has_page: bool = False, **variables: str) -> int:
        words, env = prepared(code, **variables)
        with monkeypatch.context() as patch:
            if not has_page:
                patch.setattr("tfhet.launch.output._draw", lambda folder: None)
            return main([*words, *arguments], env)

    return run


@pytest.fixture
def started(prepared):
    """`with started(code) as process`: a launcher in its own process."""

    def start(code: str, launcher: str = LAUNCHER) -> subprocess.Popen[str]:
        words, env = prepared(code)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen([sys.executable, "-c", launcher, *words], env=env, **pipes)

    return start


def events(record: RunFolder, name: str) -> list[dict]:
    return [event for event in record.events() if event["event"] == name]


def test_job_succeeds_with_its_script(launch, tmp_path, record, control_port, capfd):
    code = f"""
import json, os, pathlib, sys
pathlib.Path({str(tmp_path / "seen")!r}).write_text(json.dumps([sys.argv[1:], json.loads(os.environ["TFHET_JOB"])]))
print({NOISE!r})
print("trained")
"""
    given = ("--lease_s", "5", "--batch-size", "7", "--job_seed", "11", "word")
    assert launch(code, *given, has_page=True) == 0
    arguments, job = json.loads((tmp_path / "seen").read_text())
    assert arguments == ["--batch-size", "7", "word"], "the launcher's own arguments reach the script"
    expected = {"mode": "homogeneous", "rank": 0, "size": 1, "seed": 11, "plane": "local", "order": {}, "host": "t1"}
    assert {name: job[name] for name in expected} == expected
    assert job["job_id"].startswith("job-") and job["output_dir"] == str(tmp_path / "t1" / "output" / "data")

    out, logged = capfd.readouterr().out.splitlines(), record.log_path("t1").read_text().splitlines()
    assert f"[t1/0] {NOISE}" not in out and "[t1/0] trained" in out
    assert (
        logged[-2:] == [f"[t1/0] {NOISE}", "[t1/0] trained"] and [line for line in logged if NOISE not in line] == out
    )
    page = record.report_path.read_text()
    assert "[t1/0] trained" in page and "oneDNN" not in page

    assert not (tmp_path / "t1" / "output" / "failure").exists()
    summary = record.read_summary()
    assert summary.exit_codes == {"rank-0": 0} and summary.succeeded and summary.cause is None
    group = {"instance_type": "ml.m5.large", "role": "dnn", "servers_per_host": 0, "ranks_per_host": 1}
    assert summary.cluster == {"dnn_group": {"hosts": ["t1"], **group}}
    names = ["job.ranks", "training.started", "rank.ended", "job.decided", "link.ended"]
    assert [event["event"] for event in record.events()] == names
    check_free(control_port)


@pytest.mark.parametrize(
    ("code", "exit_code", "cause", "log"),
    [
        (
            f"import sys\nfor i in range(50): print('line', i)\nprint({NOISE!r})\nsys.exit(3)",
            3,
            "rank 0: exit code 3: line 49",
            "line 48\nline 49",
        ),
        ("raise ValueError('no weights')", 1, "rank 0: exit code 1: ValueError: no weights", "ValueError: no weights"),
        ("import os; os.kill(os.getpid(), 9)", 137, "rank 0: SIGKILL (out of memory?)", ""),
    ],
)
def test_failed_script_fails_the_job(launch, tmp_path, record, failure, code, exit_code, cause, log):
    assert launch(code) == exit_code
    first, second = failure().split("\n")[:2]
    assert first == f"{tmp_path / 'train.py'} ended on t1, {cause}"
    assert second == f"(exit code {exit_code}, seen by t1/0)" and failure().endswith(log)
    summary = record.read_summary()
    assert (summary.exit_code, summary.cause) == (exit_code, first)


@pytest.mark.parametrize("trouble", ["no template", "0.01 s"])
def test_page_that_fails_changes_nothing_else(launch, record, capfd, monkeypatch, trouble):
    def draw(content: object) -> str:
        if "s" in trouble.split():
            time.sleep(0.5)
        raise RuntimeError("no\ntemplate")

    monkeypatch.setattr("tfhet.report.html.page", draw)
    monkeypatch.setattr("tfhet.launch.output.PAGE_S", 0.01 if "s" in trouble.split() else 30.0)
    assert launch("print('trained')", has_page=True) == 0
    assert len([line for line in capfd.readouterr().out.splitlines() if trouble in line]) == 1
    assert record.read_summary().succeeded and not record.report_path.exists()


def test_log_file_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("tfhet.launch.output.LOG_BYTES", 40)
    monkeypatch.setattr("tfhet.launch.output.NOISE_BYTES", 20)
    record = RunFolder(tmp_path)
    writer = file_writer(record, "t1")
    for entry in [("x" * 9, True), ("y" * 9, False), ("noise", True), ("z" * 19, False), ("late", False)]:
        writer.put(entry)
    assert writer.close(30)
    lines = record.log_path("t1").read_text().splitlines()
    assert lines[:3] == ["x" * 9, "y" * 9, "z" * 19] and len(lines) == 4


@pytest.mark.parametrize(
    ("arguments", "variables", "word"),
    [
        (["--train_script", "nowhere.py"], {}, "nowhere.py"),
        (["--lease_s", "0"], {}, "--lease_s"),
        ([], {}, "channel 'training'"),
        (["--epochs", "x"], {}, "--epochs"),
        ([], {"TFHET_SECRET": "", "TFHET_LISTEN": "0.0.0.0"}, "TFHET_SECRET"),
        ([], {"TFHET_LISTEN": "192.0.2.1"}, "TFHET_LISTEN"),
    ],
)
def test_wrong_use_is_in_the_failure_file(environment_of, failure, arguments, variables, word):
    assert main(arguments, {**environment_of("t1", data=()), **variables}) == 2
    assert word in failure().split("\n")[0] and "exit code 2" in failure()


def test_machine_without_a_job_is_left_alone(tmp_path, capsys):
    assert main([], {"SAGEMAKER_BASE_DIR": str(tmp_path / "ml")}) == 2
    assert "SAGEMAKER_BASE_DIR" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [0, 3])
def test_record_of_an_earlier_job_is_removed(launch, tmp_path, record, code):
    leave_earlier_job(HostPaths(tmp_path / "t1"), None)
    os.utime(tmp_path / "t1" / "output" / "failure")  # it ended a moment ago
    record.write_summary(RunSummary(job_id="an-earlier-job", steps=20, examples_per_s=6404.0))
    record.write_event(Event("of.the.earlier.job", 1.0))
    (record.path / "timeline").mkdir()
    (record.path / "timeline" / "earlier.jsonl").touch()
    assert launch(f"raise SystemExit({code})") == code
    summary = record.read_summary()
    assert (summary.exit_code, summary.steps, summary.examples_per_s) == (code, None, None)
    assert summary.job_id.startswith("job-")
    assert (tmp_path / "t1" / "output" / "failure").exists() == bool(code)
    assert events(record, "of.the.earlier.job") == []
    assert not (record.path / "timeline" / "earlier.jsonl").exists()


def test_unwritable_record_changes_no_exit_code(launch, tmp_path, capfd):
    (tmp_path / "t1" / "output").mkdir(parents=True)
    (tmp_path / "t1" / "output" / "data").touch()  # a file where the directory should be
    assert launch("print('trained')") == 0
    out = capfd.readouterr().out
    assert "[t1/0] trained" in out and "rank.ended" in out and "record" in out


@pytest.mark.parametrize(
    ("number", "code", "expected"),
    [
        (signal.SIGINT, None, 130),
        (signal.SIGHUP, None, 129),
        (signal.SIGTERM, 143, 143),
        (signal.SIGTERM, 7, 143),
        (signal.SIGTERM, 0, 143),
    ],
)
def test_stop_lets_the_script_finish(started, failure, number, code, expected):
    handler = f"def stop(number, frame):\n    print('kept', flush=True)\n    sys.exit({code})\n"
    handler += "signal.signal(signal.SIGTERM, stop)\n" if code is not None else ""
    text = f"import os, signal, sys, time\n{handler}print('pid', os.getpid(), flush=True)\ntime.sleep(60)\n"
    with started(text) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "] pid" in line:
                process.send_signal(number)
        assert process.wait(30) == expected
    with pytest.raises(ProcessLookupError):
        os.kill(next(int(line.split()[-1]) for line in lines if "] pid" in line), 0)
    assert any("kept" in line for line in lines) == (code is not None)
    assert failure().startswith(f"t1/0 was asked to stop ({number.name})")


def test_late_signal_changes_no_exit_code(started):
    launcher = "import os, sys; from tfhet.launch import main; code = main(); os.kill(os.getpid(), 15); sys.exit(code)"
    with started("raise SystemExit(6)", launcher) as process:
        process.communicate(timeout=30)
        assert process.returncode == 6


def test_launcher_survives_the_end_of_its_reader(started, failure):
    with started("import sys\nfor i in range(200): print(i, flush=True)\nsys.exit(5)") as process:
        process.stdout.close()
        assert process.wait(20) == 5
    assert "exit code 5" in failure()


# Messages of a script

SENDS = """
from tfhet.cluster import environment
from tfhet.messages import MetricLine, inherited, rank
channel = inherited(environment())
def send(report): assert channel.send(report, limit_s=5)
"""
REPORTS = f"""
{SENDS}
import sys, time, urllib.request
send(rank.Reading(True))
send(rank.Reading(False))
send(rank.Progress(steps=7, examples=896, step_s=1.5, wait_s=0.25))
line = MetricLine(7, 0, 214.3, 597.0, 16.7, 2.5)
print(line, flush=True)
"""


def test_metrics_are_served_during_the_job(launch, record, capfd):
    (port,) = free_ports(1)
    code = f"""
for _ in range(500):
    try:
        text = urllib.request.urlopen("http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    except OSError:
        text = ""
    if "tfhet_loss" in text:
        break
    time.sleep(0.02)
print(text, flush=True)
"""
    assert launch(REPORTS + code, "--metrics_port", str(port), TFHET_LISTEN="127.0.0.1") == 0
    out = capfd.readouterr().out
    exposed = read("".join(line[7:] + "\n" for line in out.splitlines() if re.match(r"\[t1/0\] (# |tfhet_)", line)))
    assert {name: family.value for name, family in exposed.items()} == {
        "tfhet_up": 1,
        "tfhet_steps_total": 7,
        "tfhet_examples_total": 896,
        "tfhet_step_seconds_total": 1.5,
        "tfhet_wait_seconds_total": 0.25,
        "tfhet_epoch": 0,
        "tfhet_loss": 2.5,
    }
    check_free(port)
    assert len(events(record, "training.reading")) == 1 and "endless" not in out


@pytest.mark.parametrize("trouble", ["address", "port"])
def test_job_runs_without_metrics(launch, capfd, monkeypatch, trouble):
    async def unknown(*_: object) -> str:
        raise UsageError("unknown address")

    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1] if trouble == "port" else free_ports(1)[0]
        if trouble == "address":
            monkeypatch.setattr("tfhet.launch.launcher.in_thread", unknown)
        assert launch("print('trained')", "--metrics_port", str(port)) == 0
    out = capfd.readouterr().out
    assert "[t1/0] trained" in out and "--metrics_port" in out


@pytest.mark.parametrize("sends", ["", "send(rank.Metrics(line.exact()))"])
def test_metric_line_for_cloudwatch(launch, capfd, sends):
    code = REPORTS.replace("print(line, flush=True)", sends or "print(line, flush=True)")
    assert launch(code, "--emf_namespace", "training") == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("[t1/0] [tfhet] step=7 ")]
    (content,) = [json.loads(line) for line in lines if line.startswith("{")]  # without the host's prefix
    assert content["loss"] == 2.5 and content["host"] == "t1" and content["training_job"] == "job"
    assert content["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "training"


def test_stalled_script_is_ended_with_its_place(launch, failure):
    code = SENDS + (
        "import time\nfrom tfhet.process import answer_with_stack\nanswer_with_stack()\n"
        "def reads_for_ever(): time.sleep(50)\nsend(rank.Progress(steps=1))\nreads_for_ever()"
    )
    assert launch(code, "--stall_timeout_s", "0.5") == 1
    assert "0.5 s" in failure() and "train.py:9 in reads_for_ever" in failure()


def test_script_without_reports_never_stalls(launch):
    assert launch("import time; time.sleep(1)", "--stall_timeout_s", "0.1") == 0


# Workers on the host that trains

WORKERS = """
import contextlib, os, psutil, time
def show():
    for process in psutil.Process(os.getppid()).children():
        if "worker" in process.cmdline():
            policies = set()
            for thread in {int(name) for name in os.listdir(f"/proc/{process.pid}/task")} - {process.pid}:
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    policies.add(os.sched_getscheduler(thread))
            print("sees", process.cpu_affinity(), policies, flush=True)
"""


@pytest.fixture
def serving(launch):
    """`serving(code, *arguments)`: as `launch`, with a worker on the host."""
    control, dispatcher, worker = free_ports(3)
    ports = json.dumps({"control": control, "dispatcher": dispatcher, "workers": [worker]})
    return lambda code, *words: launch(WORKERS + code, "--dnn_host_workers", "1", *words, TFHET_PORTS=ports)


@pytest.mark.skipif(len(usable()) < 2, reason="this process has one CPU only")
def test_workers_leave_reserved_cpus(serving, capfd):
    orders = "print('hosts', len(channel.receive(5, rank.Key).key), channel.receive(5, rank.ServingHosts))"
    assert serving(f"{SENDS}{orders}\nshow()", "--reserve_cpus", "1") == 0
    out = capfd.readouterr().out
    assert f"[t1/0] sees {[*left_by(1, usable())]} {{{os.SCHED_IDLE}}}" in out
    assert "[t1/0] hosts 64 ServingHosts(hosts=('t1',), is_complete=True)" in out, "the key, and the hosts that serve"


def test_launcher_introduces_itself(assignment_of):
    data, dnn = (Launcher(one, []) for one in (assignment_of("d1"), assignment_of("t1", 1, ranks=2)))
    facts = {"dispatcher": "127.0.0.1:6000", "workers": "1"}
    assert data._host_line() == HostLine("heterogeneous", "data", "data_group", 0, facts)
    assert dnn._host_line() == HostLine("heterogeneous", "dnn", "dnn_group", 2, facts)


@pytest.mark.parametrize("timeline", ["hosts", "off"])
def test_launcher_records_its_usage(launch, record, monkeypatch, timeline):
    monkeypatch.setattr("tfhet.telemetry.sampler.PERIOD_S", 0.01)
    file = record.path / "timeline" / "use-rank-0.jsonl"
    waits = f"import os, time\nwhile not os.path.exists({str(file)!r}): time.sleep(0.01)"
    assert launch(waits if timeline == "hosts" else "", "--timeline", timeline) == 0
    found = record.timeline()
    assert found.is_empty == (timeline == "off")
    assert {name for use in found.usage for name in use.processes} <= {"launcher", "rank-0"}
    assert all(use.machine is not None for use in found.usage)
    assert all((each.host, each.offset_s, each.error_s) == ("t1", 0.0, 0.0) for each in found.clocks)
