"""Whole launchers of one-host jobs, in this process; the scripts that they run need no TensorFlow."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_text import read

from tfhet.cluster import HostPaths, check_free, free_ports
from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.launch import main
from tfhet.launch.launcher import Launcher
from tfhet.launch.output import file_writer
from tfhet.planes.cpus import left_by, usable
from tfhet.record import RunFolder, RunSummary, Timeline
from tfhet.simulate.other_jobs import leave_earlier_job

pytestmark = pytest.mark.timeout(60)

LAUNCHER = [sys.executable, "-c", "import sys; from tfhet.launch import main; sys.exit(main())"]


@pytest.fixture
def launch(environment_of, tmp_path):
    """`launch(code, *arguments)`: the exit code of a one-host job whose training script is `code`."""

    def run(code: str, *arguments: str, **variables: str) -> int:
        script = tmp_path / "train.py"
        script.write_text(code)
        env = {**os.environ, **environment_of("t1", data=()), **variables}
        return main(["--train_script", str(script), *arguments], env)

    return run


def failure(tmp_path: Path) -> str:
    return (tmp_path / "t1" / "output" / "failure").read_text()


def test_a_script_that_ends_well_ends_the_job_well(launch, tmp_path, control_port, capfd):
    assert launch("print('trained')") == 0
    assert "[t1/0] trained" in capfd.readouterr().out.splitlines()
    assert not (tmp_path / "t1" / "output" / "failure").exists()
    folder = RunFolder(tmp_path / "t1" / "output" / "data" / "tfhet")
    summary = folder.read_summary()
    assert summary.exit_codes == {"rank-0": 0} and summary.succeeded and summary.cause is None
    assert summary.cluster == {
        "dnn_group": {
            "hosts": ["t1"],
            "instance_type": "ml.m5.large",
            "role": "dnn",
            "servers_per_host": 0,
            "ranks_per_host": 1,
        }
    }
    told = ["job.ranks", "training.started", "rank.ended", "job.decided", "link.ended"]
    assert [e["event"] for e in folder.events()] == told
    (ranks,) = events(tmp_path, "job.ranks")
    assert (ranks["by"], ranks["size"], ranks["per_host"]) == ("alone", 1, 1)
    check_free(control_port)


def test_the_script_gets_its_arguments_and_its_place_and_not_the_launchers(launch, tmp_path):
    code = f"""
import json, os, sys
from pathlib import Path
Path({str(tmp_path / "seen")!r}).write_text(json.dumps([sys.argv[1:], json.loads(os.environ["TFHET_JOB"])]))
"""
    assert launch(code, "--lease_s", "5", "--batch-size", "7", "--job_seed", "11", "word") == 0
    arguments, job = json.loads((tmp_path / "seen").read_text())
    assert arguments == ["--batch-size", "7", "word"]
    assert job["job_id"].startswith("job-")
    expected = {"mode": "homogeneous", "rank": 0, "size": 1, "seed": 11, "plane": "local", "order": {}, "host": "t1"}
    assert {name: job[name] for name in expected} == expected
    assert job["output_dir"] == str(tmp_path / "t1" / "output" / "data")


@pytest.mark.parametrize(
    ("code", "exit_code", "cause"),
    [
        ("import sys; print('so long'); sys.exit(3)", 3, "rank 0: exit code 3: so long"),
        ("raise ValueError('no weights')", 1, "rank 0: exit code 1: ValueError: no weights"),
        ("import os; os.kill(os.getpid(), 9)", 137, "rank 0: SIGKILL (out of memory?)"),
        ("import os; os.kill(os.getpid(), 40)", 168, "rank 0: signal 40"),
    ],
)
def test_a_script_that_fails_gives_the_launcher_its_code_and_the_failure_file_its_cause(
    launch, tmp_path, code, exit_code, cause
):
    assert launch(code) == exit_code
    first, second = failure(tmp_path).split("\n")[:2]
    assert first == f"{tmp_path / 'train.py'} ended on t1, {cause}"
    assert second == f"(exit code {exit_code}, seen by t1/0)"
    summary = RunFolder(tmp_path / "t1" / "output" / "data" / "tfhet").read_summary()
    assert (summary.exit_code, summary.cause) == (exit_code, first)


def test_the_last_lines_of_the_log_are_in_the_failure_file_without_noise(launch, tmp_path):
    noise = "2026-11-23 05:45:41.5: I tensorflow/core/util/port.cc:113] oneDNN custom operations are on."
    launch(f"import sys\nfor i in range(50): print('line', i)\nprint({noise!r})\nsys.exit(1)")
    assert failure(tmp_path).endswith("\nline 48\nline 49")
    assert "exit code 1: line 49\n" in failure(tmp_path)


def test_noise_is_in_the_log_file_of_the_host_and_not_on_standard_output(launch, tmp_path, capfd):
    noise = "2026-11-23 05:45:41.5: I tensorflow/core/util/port.cc:113] oneDNN custom operations are on."
    assert launch(f"print({noise!r})\nprint('trained')") == 0
    out = capfd.readouterr().out.splitlines()
    assert f"[t1/0] {noise}" not in out and "[t1/0] trained" in out
    record = RunFolder(tmp_path / "t1" / "output" / "data" / "tfhet")
    logged = record.log_path("t1").read_text().splitlines()
    assert (
        logged[-2:] == [f"[t1/0] {noise}", "[t1/0] trained"] and [line for line in logged if noise not in line] == out
    )
    page = record.report_path.read_text()
    assert "[t1/0] trained" in page and "oneDNN" not in page


@pytest.mark.parametrize("trouble", ["cannot be written: no template", "was not made within 0.01 s"])
def test_a_page_that_cannot_be_made_is_said_in_a_line_and_costs_nothing(launch, tmp_path, capfd, monkeypatch, trouble):
    def draw(given: object) -> str:
        if "within" in trouble:
            time.sleep(0.5)
        raise RuntimeError("no\ntemplate")

    monkeypatch.setattr("tfhet.report.html.page", draw)
    monkeypatch.setattr("tfhet.launch.output.PAGE_S", 0.01 if "within" in trouble else 30.0)
    assert launch("print('trained')") == 0
    (said,) = [line for line in capfd.readouterr().out.splitlines() if "the page of the run" in line]
    assert trouble in said
    record = RunFolder(tmp_path / "t1" / "output" / "data" / "tfhet")
    assert record.read_summary().succeeded and not record.report_path.exists()


def test_a_log_file_has_an_end_and_noise_reaches_it_sooner(tmp_path, monkeypatch):
    monkeypatch.setattr("tfhet.launch.output.LOG_BYTES", 40)
    monkeypatch.setattr("tfhet.launch.output.NOISE_BYTES", 20)
    record = RunFolder(tmp_path)
    writer = file_writer(record, "t1")
    for entry in [("x" * 9, True), ("y" * 9, False), ("noise", True), ("z" * 19, False), ("late", False)]:
        writer.put(entry)
    assert writer.close(30)
    lines = record.log_path("t1").read_text().splitlines()
    assert lines == ["x" * 9, "y" * 9, "z" * 19, "[tfhet] this file is full: standard output has the rest"]


def test_a_script_that_is_not_there_is_wrong_use(launch, environment_of, tmp_path):
    assert main(["--train_script", "nowhere.py"], environment_of("t1", data=())) == 2
    assert failure(tmp_path).startswith("t1/0: --train_script nowhere.py: no such file, seen from /")


def test_arguments_that_cannot_be_are_wrong_use(environment_of, tmp_path, capsys):
    assert main(["--lease_s", "0"], environment_of("t1", data=())) == 2
    assert "[tfhet] error: --lease_s must be positive" in capsys.readouterr().err
    assert failure(tmp_path).startswith("--lease_s must be positive")


def test_hosts_without_a_secret_are_refused_before_any_work(environment_of, tmp_path, capsys):
    env = environment_of("d1") | {"TFHET_ADDRESSES": '{"d1": "10.0.0.1", "t1": "10.0.0.2"}', "TFHET_SECRET": ""}
    assert main([], env) == 2
    assert "other machines reach this job, which has no secret" in capsys.readouterr().err
    assert "set TFHET_SECRET" in (tmp_path / "d1" / "output" / "failure").read_text()


def test_a_machine_that_is_no_host_of_a_job_is_told_so_and_left_as_it_is(tmp_path, capsys):
    assert main([], {"SAGEMAKER_BASE_DIR": str(tmp_path / "ml")}) == 2
    assert "set SAGEMAKER_BASE_DIR" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_record_of_an_earlier_job_with_the_same_directory_is_not_taken_for_this_ones(launch, tmp_path):
    folder = RunFolder(tmp_path / "t1" / "output" / "data" / "tfhet")
    folder.create().write_summary(RunSummary(job_id="an-earlier-job", steps=20, examples_per_s=6404.0))
    assert launch("import sys; sys.exit(3)") == 3
    summary = folder.read_summary()
    assert (summary.exit_code, summary.steps, summary.examples_per_s) == (3, None, None)
    assert summary.job_id.startswith("job-") and summary.job_id != "an-earlier-job"


def test_what_an_earlier_job_left_in_the_directory_is_gone_when_this_one_succeeds(launch, tmp_path):
    leave_earlier_job(HostPaths(tmp_path / "t1"), None)
    folder = RunFolder(tmp_path / "t1" / "output" / "data" / "tfhet")
    folder.write_event(Event("of.the.earlier.job", 1.0))
    (folder.path / "timeline").mkdir()
    (folder.path / "timeline" / "earlier.jsonl").touch()
    assert launch("print('trained')") == 0
    assert not (tmp_path / "t1" / "output" / "failure").exists()
    assert folder.read_summary().succeeded
    assert "of.the.earlier.job" not in folder.events_path.read_text()
    assert not (folder.path / "timeline" / "earlier.jsonl").exists()


def test_a_record_that_cannot_be_written_costs_neither_the_training_nor_the_exit_code(launch, tmp_path, capfd):
    (tmp_path / "t1" / "output").mkdir(parents=True)
    (tmp_path / "t1" / "output" / "data").touch()  # a file where the directory should be
    assert launch("print('trained')") == 0
    out = capfd.readouterr().out
    assert "[t1/0] trained" in out
    assert "the event rank.ended cannot be recorded" in out
    assert "the record cannot be written" in out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_launcher_that_is_told_to_stop_stops_its_script_and_says_so(environment_of, tmp_path, number):
    script = tmp_path / "train.py"
    script.write_text("import os, time; print('pid', os.getpid(), flush=True); time.sleep(60)")
    env = {**os.environ, **environment_of("t1", data=())}
    with subprocess.Popen(
        [*LAUNCHER, "--train_script", str(script)], env=env, stdout=subprocess.PIPE, text=True
    ) as launcher:
        assert launcher.stdout is not None
        line = next(line for line in launcher.stdout if "] pid" in line)
        launcher.send_signal(number)
        assert launcher.wait(20) == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(int(line.split()[-1]), 0)
    assert failure(tmp_path).startswith(f"t1/0 was asked to stop ({number.name})\n")


def test_a_signal_that_comes_after_the_verdict_does_not_change_the_exit_code(environment_of, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit(6)")
    code = "import os, sys; from tfhet.launch import main; code = main(); os.kill(os.getpid(), 15); sys.exit(code)"
    env = {**os.environ, **environment_of("t1", data=())}
    command = [sys.executable, "-c", code, "--train_script", str(script)]
    assert subprocess.run(command, env=env, timeout=30, check=False).returncode == 6


def test_a_launcher_whose_log_nobody_reads_any_more_goes_on(environment_of, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import sys, time\nfor i in range(200): print(i, flush=True)\nsys.exit(5)")
    env = {**os.environ, **environment_of("t1", data=())}
    launcher = subprocess.Popen([*LAUNCHER, "--train_script", str(script)], env=env, stdout=subprocess.PIPE)
    assert launcher.stdout is not None
    launcher.stdout.close()
    assert launcher.wait(20) == 5
    assert "exit code 5" in failure(tmp_path)


# What a script tells the launcher


def events(tmp_path: Path, name: str) -> list[dict]:
    folder = RunFolder(tmp_path / "t1" / "output" / "data" / "tfhet")
    return [event for event in folder.events() if event["event"] == name]


SENDS = """
from tfhet.cluster import environment
from tfhet.messages import MetricLine, inherited, rank
channel = inherited(environment())
def send(report): assert channel.send(report, limit_s=5)
"""


def test_messages_of_a_script_are_heard_and_its_lines_are_printed(launch, tmp_path, capfd):
    code = SENDS + "print('hello')\nsend(rank.Reading(True))\nsend(rank.Reading(False))\n"
    assert launch(code + "channel.send({'type': 'something new', 'x': 1})") == 0
    out = capfd.readouterr().out
    assert "[t1/0] hello" in out
    assert "endless" not in out and "something new" not in out
    assert len(events(tmp_path, "training.reading")) == 1


SAYS = f"""
{SENDS}
import sys, time, urllib.request
send(rank.Progress(steps=7, examples=896, step_s=1.5, wait_s=0.25))
line = MetricLine(7, 0, 214.3, 597.0, 16.7, 2.5)
print(line, flush=True)
"""
ASKS = """
for _ in range(500):
    try:
        text = urllib.request.urlopen(sys.argv[1], timeout=5).read().decode()
    except OSError:
        text = ""
    if "tfhet_loss" in text:
        break
    time.sleep(0.02)
print(text, flush=True)
"""


def test_prometheus_is_answered_while_the_script_runs_and_no_longer(launch, capfd):
    (port,) = free_ports(1)
    code = SAYS + ASKS.replace("sys.argv[1]", repr(f"http://127.0.0.1:{port}/metrics"))
    assert launch(code, "--metrics_port", str(port)) == 0
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


def test_an_address_of_another_machine_ends_the_job_and_names_what_helps(launch, tmp_path):
    away = {"TFHET_LISTEN": "192.0.2.1"}
    assert launch("print('trained')", "--metrics_port", str(free_ports(1)[0]), **away) == 2
    assert "(192.0.2.1) is no address of this machine" in failure(tmp_path) and "TFHET_LISTEN" in failure(tmp_path)


def test_a_job_whose_address_is_not_known_where_its_metrics_are_to_listen_goes_on_without_them(
    launch, capfd, monkeypatch
):
    async def unknown(*_: object) -> str:
        raise UsageError("'t1' (not known here) is no address of this machine")

    monkeypatch.setattr("tfhet.launch.launcher.in_thread", unknown)
    assert launch("print('trained')", "--metrics_port", str(free_ports(1)[0])) == 0
    assert "no metrics at --metrics_port: 't1' (not known here) is no address of this machine" in capfd.readouterr().out


def test_a_launcher_that_is_told_where_to_listen_says_so(launch, capfd):
    assert launch("print('trained')", TFHET_LISTEN="0.0.0.0") == 0
    assert "; listens at '0.0.0.0', all interfaces (TFHET_LISTEN)" in capfd.readouterr().out
    assert launch("print('trained')", TFHET_LISTEN="127.0.0.1") == 0
    assert "; listens at '127.0.0.1' (TFHET_LISTEN)" in capfd.readouterr().out
    assert launch("print('trained')") == 0
    assert "listens at" not in capfd.readouterr().out


def test_a_port_for_prometheus_that_is_taken_ends_no_job(launch, capfd):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert launch("print('trained')", "--metrics_port", str(taken.getsockname()[1])) == 0
    out = capfd.readouterr().out
    assert "[t1/0] trained" in out and "no metrics at --metrics_port" in out


@pytest.mark.parametrize("says", ["print(line, flush=True)", "send(rank.Metrics(line.exact()))"])
def test_a_metric_line_is_written_once_more_for_cloudwatch_where_that_is_wanted(launch, capfd, says):
    code = SAYS.replace("print(line, flush=True)", says)
    assert launch(code, "--emf_namespace", "training") == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("[t1/0] [tfhet] step=7 ")]
    (told,) = [json.loads(line) for line in lines if line.startswith("{")]  # no host stands in front
    assert told["loss"] == 2.5 and told["host"] == "t1" and told["training_job"] == "job"
    assert told["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "training"
    assert launch(code) == 0
    assert "_aws" not in capfd.readouterr().out


def test_the_script_gets_the_key_of_the_data_plane_and_hears_who_serves(serving, capfd):
    hears = "print('hosts', len(channel.receive(5, rank.Key).key), channel.receive(5, rank.ServingHosts))"
    assert serving(SENDS + hears) == 0
    assert "[t1/0] hosts 64 ServingHosts(hosts=('t1',), is_complete=True)" in capfd.readouterr().out


@pytest.mark.parametrize(("code", "expected"), [(143, 143), (7, 7), (0, 0)])
def test_a_script_that_is_told_to_stop_may_finish_what_it_does(environment_of, tmp_path, code, expected):
    script = tmp_path / "train.py"
    script.write_text(
        "import signal, sys, time\n"
        "def stop(number, frame):\n    time.sleep(0.5)\n    print('kept', flush=True)\n"
        f"    sys.exit({code})\n"
        "signal.signal(signal.SIGTERM, stop)\nprint('begun', flush=True)\ntime.sleep(60)\n"
    )
    env = {**os.environ, **environment_of("t1", data=())}
    command = [*LAUNCHER, "--train_script", str(script)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "begun" in line:
                process.terminate()
        assert process.wait(30) == expected
    assert any("kept" in line for line in lines), lines
    if expected:
        assert "t1/0 was asked to stop (SIGTERM)" in failure(tmp_path)


def test_a_log_that_is_not_read_neither_holds_the_job_nor_its_leases(environment_of, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("for number in range(30000): print(number, 'x' * 100)\n")
    env = {**os.environ, **environment_of("t1", data=())}
    command = [*LAUNCHER, "--train_script", str(script)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.wait(60) == 0  # though the pipe is full
        assert process.stdout is not None
        assert "x" * 100 in process.stdout.read()


def test_the_last_lines_of_a_log_that_is_read_late_are_there_and_the_dropped_ones_are_counted(environment_of, tmp_path):
    script, printed, read = (tmp_path / name for name in ("train.py", "printed", "read"))
    script.write_text(
        "import pathlib, time\n"
        "for number in range(30000): print(number, 'x' * 100)\n"
        f"print('flushed', flush=True)\npathlib.Path({str(printed)!r}).touch()\n"
        f"while not pathlib.Path({str(read)!r}).exists(): time.sleep(0.01)\n"
    )
    env = {**os.environ, **environment_of("t1", data=())}
    command = [*LAUNCHER, "--train_script", str(script)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        while not printed.exists() and process.poll() is None:
            time.sleep(0.01)
        read.touch()
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        assert process.wait(60) == 0
    dropped = sum(int(line.split()[1]) for line in lines if "lines were dropped" in line)
    assert dropped > 10000
    assert dropped + len([line for line in lines if line.endswith("xxx")]) == 30000
    assert "[t1/0] flushed" in lines


def test_a_script_that_told_of_its_progress_and_stops_to_is_ended(launch, tmp_path):
    code = SENDS + "send(rank.Progress())\nimport time; time.sleep(50)"
    assert launch(code, "--stall_timeout_s", "0.5") == 1
    assert "0.5" in failure(tmp_path)


def test_where_a_script_stalled_stands_in_the_cause(launch, tmp_path):
    code = SENDS + (
        "import time\nfrom tfhet.process import answer_with_stack\nanswer_with_stack()\n"
        "def reads_for_ever(): time.sleep(50)\nsend(rank.Progress(steps=1))\nreads_for_ever()"
    )
    assert launch(code, "--stall_timeout_s", "0.5") == 1
    assert "; it hangs at train.py:9 in reads_for_ever (--stall_timeout_s)" in failure(tmp_path)


def test_a_script_that_tells_nothing_of_its_progress_may_be_silent(launch):
    assert launch("import time; time.sleep(2)", "--stall_timeout_s", "0.2") == 0


# Workers beside the training

WORKERS = """
import contextlib, os, psutil, time
def show(word):
    for process in psutil.Process(os.getppid()).children():
        if "worker" in process.cmdline():
            policies = set()
            for thread in {int(name) for name in os.listdir(f"/proc/{process.pid}/task")} - {process.pid}:
                with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                    policies.add(os.sched_getscheduler(thread))
            print(word, process.cpu_affinity(), policies, flush=True)
"""


@pytest.fixture
def serving(launch, monkeypatch):
    """`serving(code, *arguments)`: as `launch`, with a worker beside the training."""
    control, dispatcher, worker = free_ports(3)
    ports = json.dumps({"control": control, "dispatcher": dispatcher, "workers": [worker]})

    def run(code: str, *arguments: str) -> int:
        return launch(WORKERS + code, "--dnn_host_workers", "1", *arguments, TFHET_PORTS=ports)

    return run


@pytest.mark.skipif(len(usable()) < 2, reason="this process has one CPU only")
def test_workers_beside_the_training_give_way_and_keep_off_the_cpus_that_are_reserved(serving, capfd):
    assert serving("show('sees')", "--reserve_cpus", "1") == 0
    told = capfd.readouterr().out
    assert f"[t1/0] sees {[*left_by(1, usable())]} {{{os.SCHED_IDLE}}}" in told and "has no effect" not in told


def test_a_reservation_that_would_leave_the_workers_none_is_not_kept_and_that_is_said(serving, capfd):
    assert serving("show('sees')", "--reserve_cpus", str(len(usable()))) == 0
    told = capfd.readouterr().out
    assert f"[t1/0] sees {[*usable()]} " in told
    assert f"--reserve_cpus {len(usable())} has no effect" in told


def test_no_cpu_is_reserved_when_none_is_to_be(serving, capfd, tmp_path):
    busy = "end = time.time() + 1\nwhile time.time() < end: pass\n"
    assert serving(busy + "show('sees')", "--reserve_cpus", "0") == 0
    assert f"[t1/0] sees {[*usable()]} {{{os.SCHED_IDLE}}}" in capfd.readouterr().out
    assert events(tmp_path, "workers.confined") == []


@pytest.mark.skipif(len(usable()) < 2, reason="this process has one CPU only")
def test_as_many_cpus_are_reserved_as_the_training_uses(serving, capfd, tmp_path, monkeypatch):
    monkeypatch.setattr("tfhet.planes.cpus.WINDOW_S", 0.5)
    monkeypatch.setattr("tfhet.planes.cpus.SPARE_CPUS", 0.1)  # on a busy machine the script may have half a CPU
    code = "end = time.time() + 20\nwhile time.time() < end and psutil.Process(os.getppid()).children():\n"
    code += "    if any(len(p.cpu_affinity()) < len(os.sched_getaffinity(0)) for p in "
    code += "psutil.Process(os.getppid()).children()): break\nshow('sees')"
    assert serving(code) == 0
    assert f"[t1/0] sees {[*left_by(1, usable())]} {{{os.SCHED_IDLE}}}" in capfd.readouterr().out
    confined = events(tmp_path, "workers.confined")
    assert list(left_by(1, usable())) in [event["cpus"] for event in confined]


def test_the_processes_of_a_launcher_have_names(assignment_of):
    launcher = Launcher(assignment_of("t1", 1, ranks=2), [])
    assert launcher._processes() == {"launcher": os.getpid()}
    launcher._script = SimpleNamespace(pid=7)
    launcher._side = SimpleNamespace(processes=lambda: {"worker-0": 8})
    assert launcher._processes() == {"launcher": os.getpid(), "rank-1": 7, "worker-0": 8}
    launcher._script = SimpleNamespace(pid=None)
    assert launcher._processes() == {"launcher": os.getpid(), "worker-0": 8}


def sampled(launcher: Launcher, tmp_path: Path, monkeypatch) -> Timeline:
    """The timeline that a launcher recorded of itself until it was cancelled."""
    monkeypatch.setattr("tfhet.telemetry.sampler.PERIOD_S", 0.01)

    async def scenario() -> None:
        link = SimpleNamespace(clock_offset=lambda: (0.0, 0.0))
        task = asyncio.create_task(launcher._sample(link))
        notes = tmp_path / "t1" / "output" / "data" / "tfhet" / "timeline" / "use-rank-0.jsonl"
        while not task.done() and not notes.exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(scenario(), 30))
    return RunFolder(tmp_path / "t1" / "output" / "data" / "tfhet").timeline()


def test_a_launcher_notes_what_it_uses_and_what_its_host_does(assignment_of, tmp_path, monkeypatch):
    found = sampled(Launcher(assignment_of("t1", data=()), []), tmp_path, monkeypatch)
    assert {name for use in found.usage for name in use.processes} == {"launcher"}
    assert all(use.machine is not None for use in found.usage)
    assert [(each.host, each.offset_s, each.error_s) for each in found.clocks] == [("t1", 0.0, 0.0)]


def test_a_launcher_that_is_not_asked_to_notes_nothing(assignment_of, tmp_path, monkeypatch):
    assert sampled(
        Launcher(assignment_of("t1", None, "--timeline", "off", data=()), []), tmp_path, monkeypatch
    ).is_empty
