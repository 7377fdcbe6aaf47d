"""report/progress.py: how far a command is."""

from __future__ import annotations

import io
import threading

import pytest

from tfhet.report import progress_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_a_line_for_each_step_once() -> None:
    out = io.StringIO()
    with progress_of("profile", out=out) as step:
        for done in (0, 1, 1, 2):
            step(done, 2, "rounds")
    assert out.getvalue().splitlines() == [f"[profile] {done} of 2 rounds" for done in (0, 1, 2)]


def test_a_silent_command_writes_no_lines_into_a_log() -> None:
    out = io.StringIO()
    with progress_of("simulate", is_silent=True, out=out) as step:
        step(1, 2, "epochs")
    assert out.getvalue() == ""


def test_a_terminal_gets_a_bar_with_the_number_of_steps_which_goes_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    out, threads = Terminal(), threading.active_count()
    with progress_of("profile", out=out) as step:
        step(1, 5, "rounds")
        assert threading.active_count() == threads, "no thread takes CPU from what is measured"
    shown = out.getvalue()
    assert "rounds" in shown and "1/5" in shown and "\n[profile]" not in shown
    assert shown.endswith("\x1b[2K")


def test_an_error_ends_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    with pytest.raises(KeyboardInterrupt), progress_of("profile", out=out):
        raise KeyboardInterrupt
    assert out.getvalue().endswith("\x1b[2K")
