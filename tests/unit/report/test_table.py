"""report/tables.py: tables that are whole in a log."""

from __future__ import annotations

import io

import pytest

from tfhet.errors import UsageError
from tfhet.record import Figure
from tfhet.report import figure_table, show, table, text


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_rows_may_be_mappings_with_holes_and_their_keys_are_the_columns() -> None:
    lines = text(table([{"a": 1, "b": None}, {"a": 2.5, "c": "x"}])).splitlines()
    assert lines[0].split() == ["a", "b", "c"]
    assert lines[2].split() == ["1", "–", "–"]
    assert lines[3].split() == ["2.50", "–", "x"]


def test_a_wide_table_has_no_cell_cut_or_folded() -> None:
    long = "word " * 200
    out = io.StringIO()
    show(table([[long.strip()]], columns=["c"]), out, wide=True)
    assert long.strip() in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_square_brackets_of_a_log_line_are_text_and_no_markup() -> None:
    assert "[red]x[/red] [tfhet]" in text(table([["[red]x[/red] [tfhet]"]], columns=["[a]"]))


def test_a_terminal_gets_its_table_too() -> None:
    out = Terminal()
    show(table([["x"]], columns=["c"]), out)
    assert "x" in out.getvalue()


def test_a_log_that_knows_ascii_only_gets_ascii() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show(table([[None]], columns=["c"]), out)
    out.seek(0)
    assert out.read().split() == ["c", "-", "-"]


@pytest.mark.parametrize(("rows", "columns"), [([[1]], None), ([[1, 2]], ["a"])])
def test_rows_that_do_not_fit_their_columns_are_wrong_use(rows: list[list[int]], columns: list[str] | None) -> None:
    with pytest.raises(UsageError, match="column"):
        table(rows, columns=columns)


def test_the_figure_table_shows_value_interval_samples_and_what_it_is_against() -> None:
    figures = {
        "stages.x.vs_example": Figure(41.3, 39.8, 43.0, "x", 7, "the example as written"),
        "stages.x.us_per_image": Figure(100.0, 99.0, 101.0, "us", 7),
    }
    lines = text(figure_table(figures, title="stages.x")).splitlines()
    assert lines[0] == "stages.x"
    told = "stages.x.vs_example 41.3 x 39.8 to 43.0 7 the example as written"
    assert " ".join(lines[-2].split()) == told
    assert "against" not in text(figure_table({"a": figures["stages.x.us_per_image"]}))


def test_in_a_notebook_the_text_is_returned_and_not_displayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "one" in text(table([{"name": "one"}]))
