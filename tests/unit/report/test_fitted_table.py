"""report/fitted_table.py: tables that fit the screen."""

from __future__ import annotations

import io

import pytest

from tfhet.report import show, table, text

ROWS = [["one-word", "some words that are long enough to be folded", 1.0, "what matters less"] for _ in range(3)]
COLUMNS = ("name", "found", "a long heading", "source")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def printed(extras: int = 0, *, wide: bool = False) -> list[str]:
    out = io.StringIO()
    show(table(ROWS, columns=COLUMNS, extras=extras), out, wide=wide)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("columns", [120, 60, 44])
def test_no_line_is_wider_than_the_screen_and_no_word_is_broken(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = printed()
    assert max(map(len, lines)) <= columns
    words = " ".join(lines).split()
    for word in " ".join([*COLUMNS, ROWS[0][0], str(ROWS[0][1]), str(ROWS[0][3])]).split():
        assert word in words


def test_without_a_terminal_the_screen_has_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.get_terminal_size", lambda *_: (_ for _ in ()).throw(OSError))
    assert 70 < max(map(len, printed())) <= 80


def test_what_matters_less_is_left_out_before_a_cell_is_folded_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "76")
    lines = printed(extras=2)
    assert lines[-1].strip() == "left out (--wide): source"
    assert sum(str(ROWS[0][1]) in line for line in lines) == 3
    assert not any("less" in line for line in lines)


def test_a_wide_table_has_all_columns_in_one_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = printed(extras=2, wide=True)
    assert sum(str(ROWS[0][1]) in line and "what matters less" in line for line in lines) == 3


def test_headings_are_folded_before_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert sum(str(ROWS[0][1]) in line for line in printed()) == 3


def test_a_word_that_is_wider_than_the_screen_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    path = "/a/path/that/is/longer/than/the/screen/is/wide"
    for out in (io.StringIO(), Terminal()):
        show(table([["run record", path]], columns=("what", "value"), header=False), out)
        (line,) = (line for line in out.getvalue().splitlines() if path in line)
        assert "run record" in line


def test_colours_are_for_terminals_and_for_those_who_force_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.text import Text

    def shown(out: io.StringIO) -> str:
        show(table([[Text("failed", style="red")]], columns=("status",)), out)
        return out.getvalue()

    assert "\x1b[31m" in shown(Terminal()) and "\x1b" not in shown(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in shown(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31m" in shown(io.StringIO())


def test_text_is_whole_whatever_the_screen_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert "what matters less" in text(table(ROWS, columns=COLUMNS, extras=2)).splitlines()[2]
