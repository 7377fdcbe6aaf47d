"""report/picture.py: a run as its folder shows it while it goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_clock import FakeClock

from tfhet.errors import DataError
from tfhet.events import Event
from tfhet.messages import HostLine
from tfhet.record import RunFolder, RunSummary, StepTime
from tfhet.report.picture import Watcher
from tfhet.steps.meter import Meter


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run").create()


def metric_line(step: int, step_s: float = 0.1) -> str:
    meter = Meter()
    meter.add(StepTime(dur_s=step_s, wait_s=step_s / 4, examples=128))
    return f"[algo-2/0] {meter.line(step, 1, 1.5)}\n"


def say(folder: RunFolder, host: str, text: str) -> None:
    with open(folder.log_path(host), "a") as log:
        log.write(text)


def chief(folder: RunFolder) -> RunFolder:
    """Where the chief of a simulated run writes until the end."""
    return RunFolder(folder.path / "hosts" / "algo-2" / "output" / "data" / "tfhet")


def test_an_empty_folder_is_a_run_that_starts(folder) -> None:
    picture = Watcher(folder).look()
    assert (picture.state, picture.is_over, picture.steps, picture.quiet_s) == ("starting", False, [], None)


def test_the_trainers_own_metric_lines_are_read_once_each_and_whole(folder) -> None:
    watcher = Watcher(folder)
    line = metric_line(20)
    say(folder, "algo-2", "[1,mpirank:0]<stdout>:" + metric_line(10) + line[:30])
    (first,) = watcher.look().steps
    assert (first.step, first.epoch, first.step_ms, first.examples_per_s) == (10, 1, 100.0, 1280.0)
    assert (first.wait_pct, first.loss) == (25.0, 1.5)
    say(folder, "algo-2", line[30:])
    assert [step.step for step in watcher.look().steps] == [10, 20]


def test_a_log_that_was_written_anew_is_read_anew(folder) -> None:
    watcher = Watcher(folder)
    say(folder, "algo-2", metric_line(10) + metric_line(20))
    watcher.look()
    folder.log_path("algo-2").write_text(metric_line(30))
    assert [step.step for step in watcher.look().steps] == [10, 20, 30]


def test_rubbish_in_a_log_is_left_out(folder) -> None:
    folder.log_path("algo-2").write_bytes(
        b"\xff\xfe[tfhet] step=1 epoch=0 step_ms=1.2.3 examples_per_s=1 wait_pct=1\n\x00\n"
    )
    assert Watcher(folder).look().steps == []


def test_hosts_workers_restarts_and_faults_come_from_what_was_said(folder) -> None:
    for log in ("algo-1", "algo-2"):
        say(folder, log, f"[{log}] {HostLine('heterogeneous', 'data', 'data_group', plane={'workers': '3'})}\n")
    events = [
        Event("link.member_joined", 10.0, {"member": "algo-1"}),
        Event("link.member_joined", 11.0, {"member": "rank-1"}),
        Event("training.started", 12.0),
        Event("service.restarted", 13.0, {"host": "algo-1", "process": "worker-0", "code": -9}),
        Event("host.lost", 14.0, {"host": "algo-1", "reason": "its lease ended"}),
    ]
    for event in events:
        chief(folder).write_event(event)
    picture = Watcher(folder, FakeClock(20.0)).look()
    assert picture.state == "training" and picture.elapsed_s == 10.0 and picture.workers == 3
    assert picture.hosts == {"algo-1": "lost: its lease ended", "algo-2": "running", "rank-1": "joined"}
    assert picture.restarts == 1
    assert [event["event"] for event in picture.incidents] == ["service.restarted", "host.lost"]


def test_what_the_chief_and_the_simulator_write_meanwhile_is_shown_in_order_of_time(folder) -> None:
    chief(folder).write_event(Event("service.restarted", 13.0, {"host": "algo-1"}))
    for at_s in (12.0, 14.0):
        folder.write_event(Event("fault.injected", at_s, {"fault": "kill:worker"}))
    for _ in range(2):
        assert [event["time_s"] for event in Watcher(folder).look().incidents] == [12.0, 13.0, 14.0]
        folder.join_events()


def launchers_of(folder: RunFolder, **codes: int | None) -> dict[str, str]:
    """The state of hosts whose launchers have ended with these codes; None: not yet. rank0 and so on run on algo-2."""
    labels = {name: name.replace("rank", "algo-2/").replace("algo1", "algo-1") for name in codes}
    for log in ("algo-1", "algo-2"):
        say(folder, log, "x\n")
    folder.write_event(Event("hosts.started", 1.0, {"launchers": sorted(labels.values())}))
    for name, code in codes.items():
        if code is not None:
            folder.write_event(Event("host.ended", 2.0, {"host": labels[name], "code": code}))
    return dict(Watcher(folder).look().hosts)


def test_a_host_has_ended_when_all_its_launchers_have(folder) -> None:
    assert launchers_of(folder, algo1=0, rank0=0, rank1=None) == {"algo-1": "ended, code 0", "algo-2": "running"}


def test_the_code_of_a_host_is_that_of_a_launcher_that_failed(folder) -> None:
    assert launchers_of(folder, rank0=0, rank1=5)["algo-2"] == "ended, code 5"


def test_nothing_runs_in_a_run_that_is_over(folder) -> None:
    say(folder, "algo-2", "x\n")
    folder.write_summary(RunSummary(exit_code=0))
    assert Watcher(folder).look().hosts == {"algo-2": "ended"}


@pytest.mark.parametrize(
    ("summary", "state"),
    [
        (RunSummary(exit_code=0, duration_s=5.0), "succeeded"),
        (RunSummary(exit_code=3, cause="the script raised", duration_s=5.0), "failed: the script raised"),
        (RunSummary(exit_code=3, duration_s=5.0), "failed: exit code 3"),
    ],
)
def test_the_summary_ends_the_run(folder, summary, state) -> None:
    folder.write_event(Event("job.decided", 1.0, {"cause": "training is complete"}))
    assert Watcher(folder).look().state == "ending: training is complete"
    folder.write_summary(summary)
    picture = Watcher(folder).look()
    assert picture.is_over and picture.state == state and picture.elapsed_s == 5.0


def test_the_summary_of_a_trainer_that_goes_on_does_not_end_the_run(folder) -> None:
    folder.write_summary(RunSummary(exit_code=None))
    assert not Watcher(folder).look().is_over


def test_how_long_nothing_has_changed_is_told_by_the_newest_file(folder) -> None:
    say(folder, "algo-1", "x\n")
    folder.write_event(Event("training.started", 1.0))
    os.utime(folder.log_path("algo-1"), (100.0, 100.0))
    os.utime(folder.events_path, (130.0, 130.0))
    assert Watcher(folder, FakeClock(200.0)).look().quiet_s == 70.0


def test_a_summary_that_cannot_be_read_is_an_error(folder) -> None:
    folder.summary_path.write_text("{")
    with pytest.raises(DataError):
        Watcher(folder).look()
