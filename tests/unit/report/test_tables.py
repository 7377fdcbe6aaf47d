"""report/tables.py: tables that fit the screen and are whole in a log."""

from __future__ import annotations

import io

import pytest
from rich.text import Text

from tfhet.errors import UsageError
from tfhet.record import Figure
from tfhet.report import figure_table, show, table, text

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


def printed(extras: int = 0, *, wide: bool = False) -> str:
    out = io.StringIO()
    show(table(ROWS, columns=COLUMNS, extras=extras), out, wide=wide)
    return out.getvalue()


@pytest.mark.parametrize("columns", [120, 60, 44])
def test_narrow_table_fits_without_broken_words(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = printed()
    assert max(map(len, shown.splitlines())) <= columns
    assert set(" ".join([*COLUMNS, *map(str, ROWS[0][:2]), str(ROWS[0][3])]).split()) <= set(shown.split())


def test_extra_columns_are_omitted_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "76")
    shown = printed(extras=2)
    assert "--wide" in shown and shown.rstrip().endswith("source") and "less" not in shown
    assert shown.count(str(ROWS[0][1])) == 3, "no cell is folded"
    assert printed(extras=2, wide=True).count("what matters less") == 3
    assert "what matters less" in text(table(ROWS, columns=COLUMNS, extras=2))


@pytest.mark.parametrize("out", [io.StringIO, Terminal])
def test_word_wider_than_the_screen_stays_whole(monkeypatch: pytest.MonkeyPatch, out: type[io.StringIO]) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    path, written = "/a/path/that/is/longer/than/the/screen/is/wide", out()
    show(table([["run record", path]], columns=("what", "value"), header=False), written)
    assert path in written.getvalue()


@pytest.mark.parametrize(
    ("out", "variable", "is_red"),
    [
        (Terminal, None, True),
        (io.StringIO, None, False),
        (Terminal, "NO_COLOR", False),
        (io.StringIO, "FORCE_COLOR", True),
    ],
)
def test_only_terminals_get_colours(monkeypatch: pytest.MonkeyPatch, out, variable, is_red) -> None:
    if variable:
        monkeypatch.setenv(variable, "1")
    written = out()
    show(table([[Text("failed", style="red")]], columns=("status",)), written)
    assert ("\x1b[31m" in written.getvalue()) == is_red and "failed" in written.getvalue()


def test_keys_of_rows_are_the_columns() -> None:
    lines = [line.split() for line in text(table([{"a": 1, "b": None}, {"a": 2.5, "c": "x"}])).splitlines()]
    assert [lines[0], *lines[2:]] == [["a", "b", "c"], ["1", "–", "–"], ["2.50", "–", "x"]]


def test_square_brackets_are_no_markup() -> None:
    assert "[red]x[/red] [tfhet]" in text(table([["[red]x[/red] [tfhet]"]], columns=["[a]"]))


def test_ascii_output_takes_every_table() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show(table([[None]], columns=["c"]), out)
    out.seek(0)
    assert out.read().split() == ["c", "-", "-"]


@pytest.mark.parametrize(("rows", "columns"), [([[1]], None), ([[1, 2]], ["a"])])
def test_rows_must_match_their_columns(rows: list[list[int]], columns: list[str] | None) -> None:
    with pytest.raises(UsageError, match="column"):
        table(rows, columns=columns)


def test_figure_table_shows_what_is_known() -> None:
    against = Figure(41.3, 39.8, 43.0, "x", 7, "the example as written")
    shown = text(figure_table({"x.vs_example": against, "x.us": Figure(100.0, 99.0, 101.0, "us", 7)}, title="x"))
    assert "x.vs_example 41.3 x 39.8 to 43.0 7 the example as written" in " ".join(shown.split())
    assert "against" not in text(figure_table({"a": Figure(1.0, 1.0, 1.0, "us", 7)}))


def test_notebook_text_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "one" in text(table([{"name": "one"}]))
