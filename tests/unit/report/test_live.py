"""report/picture.py, live.py, tables.py, log_lines.py: a run on the screen while it continues."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_clock import FakeClock

from tfhet.errors import DataError, UsageError
from tfhet.events import Event
from tfhet.messages import HostLine, JobResultLine, MetricLine, parse_line
from tfhet.record import RunFolder, RunSummary, StepTime
from tfhet.report import gathered, has_colours, painted, place_of, progress_of, table, text
from tfhet.report.live import COST_EVERY_S, GIVE_UP_S, Plain, Redrawn, screen, top
from tfhet.report.log_lines import hue, is_error, printable
from tfhet.report.picture import UNREAD_S, Picture, Watcher
from tfhet.steps.meter import Meter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def xterm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run").create()


def metric_line(step: int) -> str:
    meter = Meter()
    meter.add(StepTime(dur_s=0.1, wait_s=0.025, examples=128))
    return f"[algo-2/0] {meter.line(step, 1, 1.5)}\n"


def log(folder: RunFolder, host: str, text: str) -> None:
    with open(folder.log_path(host), "a") as file:
        file.write(text)


def chief(folder: RunFolder) -> RunFolder:
    """The folder that the chief of a simulated run writes until the end."""
    return RunFolder(folder.path / "hosts" / "algo-2" / "output" / "data" / "tfhet")


def test_metric_lines_are_read_once(folder) -> None:
    watcher = Watcher(folder)
    picture = watcher.look()
    assert (picture.state, picture.is_over, picture.steps, picture.quiet_s) == ("starting", False, [], None)
    line = metric_line(20)
    log(folder, "algo-2", "[1,mpirank:0]<stdout>:" + metric_line(10) + line[:30])
    (first,) = watcher.look().steps
    assert (first.step, first.epoch, first.step_ms, first.examples_per_s) == (10, 1, 100.0, 1280.0)
    assert (first.wait_pct, first.loss) == (25.0, 1.5)
    log(folder, "algo-2", line[30:])
    assert [step.step for step in watcher.look().steps] == [10, 20]
    folder.log_path("algo-2").write_text(metric_line(30))  # a log that is written again
    assert [step.step for step in watcher.look().steps] == [10, 20, 30]
    rubbish = b"\xff\xfe[tfhet] step=1 epoch=0 step_ms=1.2.3 examples_per_s=1 wait_pct=1\n\x00\n"
    folder.log_path("algo-1").write_bytes(rubbish)
    assert len(watcher.look().steps) == 3


def test_picture_shows_hosts_restarts_and_faults(folder) -> None:
    for host in ("algo-1", "algo-2"):
        log(folder, host, f"[{host}] {HostLine('heterogeneous', 'data', 'data_group', plane={'workers': '3'})}\n")
    for event in (
        Event("link.member_joined", 10.0, {"member": "algo-1"}),
        Event("link.member_joined", 11.0, {"member": "rank-1"}),
        Event("training.started", 12.0),
        Event("service.restarted", 13.0, {"host": "algo-1", "process": "worker-0", "code": -9}),
        Event("host.lost", 15.0, {"host": "algo-1", "reason": "its lease ended"}),
    ):
        chief(folder).write_event(event)
    folder.write_event(Event("fault.injected", 14.0, {"fault": "kill:worker"}))  # by the simulator
    for _ in range(2):
        picture = Watcher(folder, FakeClock(20.0)).look()
        assert picture.state == "training" and picture.elapsed_s == 10.0 and picture.workers == 3
        assert picture.hosts == {"algo-1": "lost: its lease ended", "algo-2": "running", "rank-1": "joined"}
        assert picture.restarts == 1
        assert [event["time_s"] for event in picture.incidents] == [13.0, 14.0, 15.0]
        folder.join_events()


def test_unread_data_group_is_named(folder) -> None:
    log(folder, "algo-1", f"[algo-1] {HostLine('heterogeneous', 'data', 'data_group')}\n")
    chief(folder).write_event(Event("training.started", 100.0, {"sees_reads": True}))
    assert Watcher(folder, FakeClock(100.0 + UNREAD_S - 1)).look().state == "training", "it may load a model first"
    assert "data_group" in Watcher(folder, FakeClock(100.0 + UNREAD_S)).look().state
    cluster = {"data_group": {"hosts": ["algo-1"], "role": "data"}}
    folder.write_summary(RunSummary(exit_code=0, has_read=False, cluster=cluster))
    state = Watcher(folder).look().state
    assert state.startswith("succeeded") and "data_group" in state
    folder.summary_path.unlink()
    chief(folder).write_event(Event("training.reading", 101.0))
    assert Watcher(folder, FakeClock(1000.0)).look().state == "training"


@pytest.mark.parametrize(
    ("codes", "hosts"),
    [
        ({"algo-1": 0, "algo-2/0": 0, "algo-2/1": None}, {"algo-1": "ended, code 0", "algo-2": "running"}),
        ({"algo-2/0": 0, "algo-2/1": 5}, {"algo-1": "running", "algo-2": "ended, code 5"}),
    ],
)
def test_host_ends_with_its_last_launcher(folder, codes, hosts) -> None:
    for host in ("algo-1", "algo-2"):
        log(folder, host, "x\n")
    folder.write_event(Event("hosts.started", 1.0, {"launchers": sorted(codes)}))
    for name, code in codes.items():
        if code is not None:
            folder.write_event(Event("host.ended", 2.0, {"host": name, "code": code}))
    assert Watcher(folder).look().hosts == hosts


@pytest.mark.parametrize(
    ("summary", "state"),
    [
        (RunSummary(exit_code=0, duration_s=5.0), "succeeded"),
        (RunSummary(exit_code=3, cause="the script raised", duration_s=5.0), "failed: the script raised"),
        (RunSummary(exit_code=3, duration_s=5.0), "failed: exit code 3"),
    ],
)
def test_summary_ends_the_run(folder, summary, state) -> None:
    log(folder, "algo-2", "x\n")
    folder.write_event(Event("job.decided", 1.0, {"cause": "complete"}))
    folder.write_summary(RunSummary(exit_code=None))  # by a trainer that continues
    picture = Watcher(folder).look()
    assert picture.state == "ending: complete" and not picture.is_over
    folder.write_summary(summary)
    picture = Watcher(folder).look()
    assert (picture.is_over, picture.state, picture.elapsed_s) == (True, state, 5.0)
    assert picture.hosts == {"algo-2": "ended"}
    folder.summary_path.write_text("{")
    with pytest.raises(DataError):
        Watcher(folder).look()


def picture(steps: int = 2, state: str = "InProgress, Training", cost: str = "12 min 05 s, $7.25 so far") -> Picture:
    lines = [MetricLine(100 * (n + 1), 0, 86.1 + n, 950.0, 3.5, 2.25) for n in range(steps)]
    return Picture(state, False, None, 725.0, lines, None, {}, 0, (), None, name="demo", cost=cost)


def test_file_gets_plain_lines() -> None:
    out = io.StringIO()
    with screen(out, "follow", has_log=True) as shown:
        shown.log("algo-1 dnn_group", "[tfhet] step=100", is_metric=True)
        shown.log("algo-1", "\x1b[31mred\x1b[0m 10 %\r100 %", is_metric=False)
        shown.show(picture(), 0.0)
    assert out.getvalue().splitlines() == [
        "algo-1 dnn_group | [tfhet] step=100",
        "algo-1 | 100 %",
        "[follow] demo: InProgress, Training; 12 min 05 s, $7.25 so far",
    ]


def test_cost_is_repeated_after_a_minute() -> None:
    out = io.StringIO()
    shown = Plain(out, "follow", has_log=True)
    for now_s, seen in (
        (0.0, picture(1)),
        (COST_EVERY_S - 1, picture(2)),
        (COST_EVERY_S, picture(2)),
        (3 * COST_EVERY_S, picture(2)),
        (3 * COST_EVERY_S, picture(2, "Completed", "$7.25")),
    ):
        shown.show(seen, now_s)
    assert len(out.getvalue().splitlines()) == 3
    assert out.getvalue().splitlines()[-1] == "[follow] demo: Completed; $7.25"


def test_terminal_gets_table_below_the_log() -> None:
    out = Terminal()
    with screen(out, "follow", has_log=True) as shown:
        assert isinstance(shown, Redrawn)
        shown.log("algo-1", "[tfhet] step=100 epoch=0", is_metric=True)
        shown.log("algo-1", "[bold]not markup[/bold]", is_metric=False)
        shown.log("algo-2/0 dnn_group", "ValueError: no", is_metric=False)
        with shown.paused():
            out.write("Stop?")
        shown.show(picture(9), 0.0)
    written = out.getvalue()
    assert "[bold]not markup[/bold]" in written and "[tfhet] step=100 epoch=0" not in written
    assert "\x1b[31m! ValueError: no" in written and "Stop?" in written
    assert "$7.25" in written and "94.1 ms" in written and "86.1" not in written, "only the last step"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext", "plain\ttext"),
        ("1 %\r50 %\r100 %\r", "100 %"),
        ("\x1b]0;title\x07\x1b[2Jafter\x00\x08", "after"),
        ("\x9b31mstill", "31mstill"),
        ("ünï", "ünï"),
    ],
)
def test_control_sequences_are_stripped(text: str, shown: str) -> None:
    assert printable(text) == shown


NASTY = "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[5A \x9b2J\x08end"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (printable(NASTY), "red 2Jend"),
        (printable(NASTY, keeps_colours=True), "\x1b[31mred 2Jend\x1b[0m"),
        (painted(f"[algo-1] {NASTY}", False), "[algo-1] red 2Jend"),
        (painted(f"[algo-1] {NASTY}", True).partition(" ")[2], "\x1b[31mred 2Jend\x1b[0m"),
        (text(table([[NASTY]], columns=[NASTY])).split("\n")[0].strip(), "red 2Jend"),
    ],
    ids=["plain", "colours", "line", "coloured line", "table"],
)
def test_output_of_scripts_moves_no_cursor(shown: str, expected: str) -> None:
    assert shown == expected


def test_ascii_output_takes_every_line() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Plain(out, "follow").log("algo-1", "ünï", is_metric=False)
    out.flush()
    assert out.buffer.getvalue() == b"algo-1 | ?n?\n"  # type: ignore[attr-defined]


STEP = "[algo-1/0] [tfhet] step={} epoch=0 step_ms=86.1 examples_per_s=95143 loss=2.30 wait_pct=3.1\n"


class Acting(FakeClock):
    """A clock that does something at each sleep, and sets the time of the folder's files."""

    def __init__(self, folder: RunFolder, *acts: Callable[[], object]):
        super().__init__(1000.0)
        self._folder, self._acts = folder, list(acts)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self._acts:
            self._acts.pop(0)()
            for path in self._folder.path.rglob("*"):
                os.utime(path, (self.wall(), self.wall()))


@pytest.fixture
def running(folder: RunFolder) -> RunFolder:
    log(folder, "algo-1", STEP.format(10))
    os.utime(folder.log_path("algo-1"), (1000.0, 1000.0))
    return folder


def end(folder: RunFolder, code: int) -> None:
    folder.write_summary(RunSummary(exit_code=code, cause="it broke" if code else None))


@pytest.mark.parametrize(("code", "last"), [(0, "succeeded"), (3, "failed: it broke")])
def test_top_prints_news_until_the_end(running, code, last) -> None:
    restarted = Event("service.restarted", 1002.0, {"host": "algo-1"})
    acts = (
        lambda: log(running, "algo-1", STEP.format(20)),
        lambda: running.write_event(restarted),
        lambda: end(running, code),
    )
    out = io.StringIO()
    assert top(running, out, clock=Acting(running, *acts)) == (1 if code else 0)
    assert [line.split()[1] for line in out.getvalue().splitlines()] == [
        "step=10",
        "starting",
        "step=20",
        "service.restarted",
        last.split()[0],
    ]


def test_top_once_prints_one_picture(running) -> None:
    out = io.StringIO()
    assert top(running, out, once=True, clock=FakeClock(1080.0)) == 0
    shown = {line.split("  ")[0].strip(): line for line in out.getvalue().splitlines()}
    assert shown["run"].endswith(str(running.path)) and "10, epoch 0" in shown["step"]
    assert "86.1 ms" in shown["step time"] and "3.1 %" in shown["waiting for data"]
    assert shown["examples/s"].endswith("95,143") and "running" in shown["algo-1"]
    assert "1 min 20 s" in shown["unchanged for"]


@pytest.mark.parametrize("has_log", [True, False])
def test_top_gives_up_on_silent_folder(folder, has_log) -> None:
    clock = FakeClock(1000.0)
    if has_log:
        log(folder, "algo-1", STEP.format(10))
        os.utime(folder.log_path("algo-1"), (1000.0, 1000.0))
    began = clock.monotonic()
    assert top(folder, io.StringIO(), every_s=60.0, clock=clock) == 1
    assert GIVE_UP_S < clock.monotonic() - began <= GIVE_UP_S + 120


@pytest.mark.parametrize("out", [io.StringIO, Terminal])
def test_interrupt_ends_only_the_view(running, out) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        top(running, out(), clock=Acting(running, interrupt))
    assert not running.summary_path.exists()


def test_top_redraws_a_terminal(running) -> None:
    out = Terminal()
    lost = Event("host.lost", 1002.0, {"host": "algo-1", "reason": "its <b>lease</b> [bold]ended"})
    clock = Acting(running, lambda: running.write_event(lost), lambda: end(running, 0))
    assert top(running, out, clock=clock) == 0
    shown = out.getvalue()
    assert shown.count("step time") >= 3 and "\x1b[" in shown and "succeeded" in shown and "[bold]ended" in shown
    with pytest.raises(UsageError):
        top(RunFolder(running.path / "gone"), out)


def test_progress_in_a_log() -> None:
    out = io.StringIO()
    for is_silent in (False, True):
        with progress_of("profile", is_silent=is_silent, out=out) as step:
            for done in (0, 1, 1, 2):
                step(done, 2, "rounds")
    assert out.getvalue().splitlines() == [f"[profile] {done} of 2 rounds" for done in (0, 1, 2)]


def test_progress_bar_disappears_at_the_end() -> None:
    out, threads = Terminal(), threading.active_count()
    with pytest.raises(KeyboardInterrupt), progress_of("profile", out=out) as step:
        step(1, 5, "rounds")
        assert threading.active_count() == threads, "no thread takes CPU from what is measured"
        raise KeyboardInterrupt
    assert "1/5" in out.getvalue() and out.getvalue().endswith("\x1b[2K")


def test_equal_lines_of_ranks_are_merged() -> None:
    lines = ["[a/0] Epoch 1", "[b] Epoch 1", "[a/1] Epoch 1", "[a/0] Epoch 1", "[a/1] other", "Epoch 1", "Epoch 1"]
    merged = {**dict(enumerate(lines)), 0: "[a/0] Epoch 1 (2 ranks)"}
    assert gathered(lines) == {at: line for at, line in merged.items() if at != 2}
    again = ["[a/0] Epoch 1 (8 ranks)", "b | [b/8] Epoch 1 (7 ranks)", "[1,15]<stdout>:[b/15] Epoch 1"]
    assert gathered(again) == {0: "[a/0] Epoch 1 (16 ranks)"}
    assert gathered(["[a/0] made of parts (3 ranks)"]) == {0: "[a/0] made of parts (3 ranks)"}
    ends = [f"[a/{rank}] {JobResultLine(1, 'it ended')}" for rank in range(2)]
    assert parse_line(gathered(ends)[0]) == JobResultLine(1, "it ended"), "programs read it as before"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("[algo-2/0] text", ("algo-2/0", "text")),
        ("algo-2 | [algo-2] [worker-0] text", ("algo-2", "[worker-0] text")),
        ("[1,mpirank:0,algo-1]<stdout>:[algo-1/0] text", ("algo-1/0", "text")),
        ("[tfhet] error: text", ("", "[tfhet] error: text")),
        ("algo-2 | toolkit", ("", "algo-2 | toolkit")),
    ],
)
def test_place_of_a_line(line: str, found: tuple[str, str]) -> None:
    assert place_of(line) == found


@pytest.mark.parametrize(
    ("text", "is_bad"),
    [
        ("Traceback (most recent call last):", True),
        ("ValueError: no such file", True),
        ("Exception: no", True),
        ("[worker-0] tensorflow.python.framework.errors_impl.NotFoundError: a.tfrecord", True),
        ("2026-11-23 05:45:44.4: E tensorflow/core/x.cc:1] no memory", True),
        ("F0000 00:00:1.5 1 x.cc:1] check failed", True),
        (str(JobResultLine(1, "train.py ended")), True),
        ("22/22 - 7s - loss: 1.0580", False),
        ("no Error: here", False),
        ("2026-11-23 05:45:44.4: W tensorflow/core/x.cc:1] slow", False),
    ],
)
def test_errors_are_marked(text: str, is_bad: bool) -> None:
    assert is_error(text) == is_bad
    assert painted(f"[a/0] {text}", False) == f"[a/0] {'! ' if is_bad else ''}{text}"


def test_hosts_have_colours() -> None:
    assert hue("algo-1/0") == hue("algo-1/7") == hue("algo-1") != hue("algo-2")
    assert painted("[algo-1/0] text", True) == "\x1b[35m[algo-1/0]\x1b[0m text"
    assert painted("algo-1 | [algo-1/0] Error: no", True).endswith("[algo-1/0]\x1b[0m \x1b[31m! Error: no\x1b[0m")
    assert painted("text", True) == "text"


@pytest.mark.parametrize(
    ("out", "env", "expected"),
    [(io.StringIO, {}, False), (Terminal, {"NO_COLOR": ""}, True), (Terminal, {"NO_COLOR": "1"}, False)],
)
def test_no_color_is_respected(out, env, expected) -> None:
    assert has_colours(out(), env) == expected
