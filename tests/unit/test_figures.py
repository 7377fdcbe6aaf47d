"""scripts/figures.py fills what a comment marks, from a record, and says which document is stale."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tfhet.record import Figure, Record

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def figures(tmp_path, monkeypatch):
    """The script, for documents and a record of the test's own."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    for name in ("figures", "record_tables"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import figures
    import record_tables

    monkeypatch.setattr(record_tables, "ROOT", tmp_path)
    record = Record.of(
        "suite",
        {
            "suite.a.step_ms": Figure.of([86.14, 86.14, 86.14], unit="ms"),
            "suite.b.step_ms": Figure.of([43.07], unit="ms"),
            "suite.cases": Figure.single(65, unit="cases"),
        },
        details={
            "rows": [{"kind": "failure", "exit s": 5.24}, {"kind": "goes on", "exit s": None}],
            "runs": [{"ms": [1.0, 3.0]}, {"ms": [4.0]}],
        },
    )
    record.write(tmp_path / "results" / "suite.json")
    return figures


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("suite.cases as d", "65"),
        ("suite.a.step_ms", "86.1"),
        ("suite.a.step_ms:n as d", "3"),
        ("suite.a.step_ms as .2f", "86.14"),
        ("suite.b.step_ms / suite.a.step_ms as .0%", "50 %"),
        ("count suite.*.step_ms", "2"),
        ("count suite.*.step_ms <= 50", "1"),
        ("max suite.*.step_ms", "86.1"),
        ("count details.rows {kind: failure}", "1"),
        ("max details.rows.*.exit s as .1f", "5.2"),
        ("max details.runs.*.ms as .1f", "3.0, 4.0"),
        ("max details.runs.*.ms / min details.runs.*.ms as d", "3, 1"),
        ("name", "suite"),
    ],
)
def test_a_query_finds_a_value(figures, query, shown):
    text = f"It has <!--= results/suite.json {query}-->old<!--/--> of them.\n"
    assert figures.fill(text) == text.replace("old", shown)


def test_a_table_is_chosen_by_rows_and_columns(figures):
    marker = """<!-- table results/suite.json
corner: flow
rows: {first: a, second: b, third: c}
columns: {step: "[[suite.$row.step_ms]] ms"}
gaps: true
-->
"""
    with pytest.raises(figures.MarkerError, match="a row or a column is empty"):
        figures.fill(f"{marker}<!-- end -->\n")
    marker = marker.replace(", third: c", "")
    table = "| flow | step |\n|---|---|\n| first | 86.1 ms |\n| second | 43.1 ms |\n"
    assert figures.fill(f"{marker}old\n<!-- end -->\n") == f"{marker}{table}<!-- end -->\n"


def test_a_table_has_a_row_for_each_entry_of_a_list(figures):
    options = '{each: details.rows, columns: {"": "[[kind]]", exit: "[[exit s]] s"}, gaps: true}'
    marker = f"<!-- table results/suite.json {options} -->\n"
    filled = figures.fill(f"{marker}<!-- end -->\n")
    assert filled == f"{marker}|  | exit |\n|---|---|\n| failure | 5.24 s |\n| goes on |  |\n<!-- end -->\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A <!--= results/suite.json suite.gone-->1<!--/-->", "line 1: .* there is no 'suite.gone'"),
        ("A <!--= results/gone.json suite.cases-->1<!--/-->", "gone.json cannot be read"),
        ("A <!--= results/suite.json suite.*.step_ms-->1<!--/-->", "name a function"),
        ("A\n<!--= results/suite.json suite.cases-->1<!--/-->", "line 2: a line that begins with a comment"),
        ("A <!--= results/suite.json suite.cases-->1", "match"),
        ("<!-- figures results/suite.json -->\n<!-- figures results/suite.json -->\n<!-- end -->\n", "is missing"),
        ("<!-- picture results/suite.json -->\n<!-- end -->\n", "no kind of table; known: figures"),
        ("<!-- figures results/suite.json {also: 1} -->\n<!-- end -->\n", "also"),
        ("<!-- end -->\n", "match"),
    ],
)
def test_a_marker_that_cannot_be_filled_is_an_error(figures, text, message):
    with pytest.raises(figures.MarkerError, match=message):
        figures.fill(text)


def test_a_stale_document_is_named_with_what_differs_and_then_filled(figures, tmp_path, monkeypatch, capsys):
    (tmp_path / "README.md").write_text("It has <!--= results/suite.json suite.cases as d-->64<!--/--> cases.\n")
    monkeypatch.setattr(sys, "argv", ["figures.py", "--check"])
    assert figures.main() == 1
    said = capsys.readouterr()
    assert "README.md is stale" in said.err
    assert "-->64<" in said.out and "-->65<" in said.out
    monkeypatch.setattr(sys, "argv", ["figures.py"])
    assert figures.main() == 0
    monkeypatch.setattr(sys, "argv", ["figures.py", "--check"])
    assert figures.main() == 0
    assert "-->65<!--/--> cases" in (tmp_path / "README.md").read_text()
