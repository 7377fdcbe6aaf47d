"""scripts/figures.py: numbers and plots of pages come from the records; a wrong marker is refused."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.record import Figure, Record

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def figures(monkeypatch):
    """The script as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("figures")


@pytest.fixture
def fill(figures, tmp_path):
    """`fill(text)`: the text of `page.md`, filled from `r.json`."""
    step = Figure.of([10.0, 12_345.0, 30.0, 40.0, 20.0], unit="ms")
    record = Record("suite", {"suite.step_ms": step}, machine={"cpu": "X", "cores": 2}, code={"commit": "0123456789"})
    record.write(tmp_path / "r.json")
    return lambda text: figures.fill(text, "page.md", tmp_path)


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("suite.step_ms", "30.0"),
        ("suite.step_ms .0f", "30"),
        ("suite.step_ms:high", "12,345"),
        ("suite.step_ms:interval .1f", "10.0 to 12345.0"),
        ("suite.step_ms:n", "5"),
        ("suite.step_ms:level", "93 %"),
        ("suite.step_ms:row .0f", "30 | 10 to 12345 | 93 % | 5"),
        ("machine", "2 cores (X)"),
        ("commit", "01234567"),
    ],
)
def test_markers_are_filled(fill, query, number):
    assert (
        fill(f"It took <!--= r.json {query} -->1<!--/--> ms.")
        == f"It took <!--= r.json {query} -->{number}<!--/--> ms."
    )


@pytest.mark.parametrize(
    "marker",
    [
        "<!--= missing.json suite.step_ms -->1<!--/-->",
        "<!--= r.json suite.nothing -->1<!--/-->",
        "<!--= r.json suite.step_ms:middle -->1<!--/-->",
        "<!--= r.json suite.step_ms .zz -->1<!--/-->",
        "<!--= r.json suite.step_ms -->1",
        "<!--= r.json -->1<!--/-->",
    ],
)
def test_wrong_marker_names_page_and_line(fill, marker):
    with pytest.raises(UsageError, match=r"^page\.md:3: "):
        fill(f"# Title\n\nIt took {marker} ms.\n")


def test_pages_and_plots_match_the_records(figures, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["figures.py", "--check"])
    assert figures.main() == 0, capsys.readouterr().out
