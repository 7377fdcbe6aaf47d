"""report/live.py: what is shown of a run as it goes on."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_clock import FakeClock

from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.record import RunFolder, RunSummary
from tfhet.report.live import GIVE_UP_S, top

STEP = "[algo-1/0] [tfhet] step={} epoch=0 step_ms=86.1 examples_per_s=95143 loss=2.30 wait_pct=3.1\n"


class Acting(FakeClock):
    """A clock on which something happens whenever somebody sleeps; files are as old as it says."""

    def __init__(self, folder: RunFolder, *acts: Callable[[], object]):
        super().__init__(1000.0)
        self._folder, self._acts = folder, list(acts)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self._acts:
            self._acts.pop(0)()
            for path in self._folder.path.rglob("*"):
                os.utime(path, (self.wall(), self.wall()))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run").create()
    log(made, 10)
    os.utime(made.log_path("algo-1"), (1000.0, 1000.0))
    return made


def log(folder: RunFolder, step: int) -> None:
    with open(folder.log_path("algo-1"), "a") as file:
        file.write(STEP.format(step))


def end(folder: RunFolder, code: int) -> None:
    folder.write_summary(RunSummary(exit_code=code, cause="it broke" if code else None))


@pytest.mark.parametrize(("code", "last"), [(0, "succeeded"), (3, "failed: it broke")])
def test_plain_lines_tell_what_is_new_until_the_run_ends(folder, code, last) -> None:
    restarted = Event("service.restarted", 1002.0, {"host": "algo-1"})
    clock = Acting(folder, lambda: log(folder, 20), lambda: folder.write_event(restarted), lambda: end(folder, code))
    out = io.StringIO()
    assert top(folder, out, clock=clock) == (1 if code else 0)
    assert out.getvalue().splitlines() == [
        "[top] step=10 epoch=0 step_ms=86.1 wait_pct=3.1 examples_per_s=95143 loss=2.3000",
        "[top] starting",
        "[top] step=20 epoch=0 step_ms=86.1 wait_pct=3.1 examples_per_s=95143 loss=2.3000",
        '[top] service.restarted host="algo-1"',
        f"[top] {last}",
    ]


def test_one_picture_is_printed_and_that_is_all(folder) -> None:
    out = io.StringIO()
    assert top(folder, out, once=True, clock=FakeClock(1000.0)) == 0
    told = {line.split("  ")[0].strip(): line for line in out.getvalue().splitlines()}
    assert (
        told["run"].endswith(str(folder.path))
        and "10, epoch 0" in told["step"]
        and "86.1 ms" in told["step time"]
        and "3.1 %" in told["waiting for data"]
    )
    assert told["examples/s"].endswith("95,143") and "running" in told["algo-1"]


def test_the_picture_says_for_how_long_the_folder_has_not_changed(folder) -> None:
    out = io.StringIO()
    top(folder, out, once=True, clock=FakeClock(1080.0))
    (line,) = (line for line in out.getvalue().splitlines() if "unchanged for" in line)
    assert "1 min 20 s" in line


def test_a_folder_that_has_not_changed_for_long_is_given_up_in_the_end(folder) -> None:
    out = io.StringIO()
    assert top(folder, out, every_s=20.0, clock=FakeClock(1000.0)) == 1
    assert "given up" in out.getvalue().splitlines()[-1]


def test_a_folder_in_which_nothing_ever_comes_is_given_up_too(tmp_path) -> None:
    clock = FakeClock()
    assert top(RunFolder(tmp_path), io.StringIO(), every_s=60.0, clock=clock) == 1
    assert GIVE_UP_S < clock.monotonic() <= GIVE_UP_S + 120


@pytest.mark.parametrize("out", [io.StringIO, Terminal])
def test_ctrl_c_ends_the_view_and_not_the_run(folder, out) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        top(folder, out(), clock=Acting(folder, interrupt))
    assert not folder.summary_path.exists()


def test_a_terminal_shows_the_picture_anew(folder, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    restarted = Event("host.lost", 1002.0, {"host": "algo-1", "reason": "its <b>lease</b> [bold]ended"})
    clock = Acting(folder, lambda: folder.write_event(restarted), lambda: end(folder, 0))
    assert top(folder, out, clock=clock) == 0
    shown = out.getvalue()
    assert shown.count("step time") >= 3 and "\x1b[" in shown
    assert "succeeded" in shown and "[bold]ended" in shown and "faults, the last 1 of 1" in shown


def test_there_must_be_a_folder(tmp_path) -> None:
    with pytest.raises(UsageError, match="no run at .*gone: name the folder of a run"):
        top(RunFolder(tmp_path / "gone"), io.StringIO())
