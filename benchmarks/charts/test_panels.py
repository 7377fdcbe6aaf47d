"""The picture, and what cannot be drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.charts.panels import Panel, plot_panels
from tfhet.errors import UsageError
from tfhet.record import Figure


def panel(title: str, unit: str = "ms") -> Panel:
    points = {float(x): Figure.of([10.0 / (x + 1), 11.0 / (x + 1)], unit=unit) for x in range(3)}
    return Panel(title, points, {"ideal": {0.0: 9.0, 2.0: 3.0}, "without": {0.0: 8.0, 2.0: 2.0}})


def test_every_panel_is_drawn_with_its_title_and_the_lines_are_named_once(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = plot_panels([panel("one"), panel("two"), panel("three")], tmp_path / "deep" / "p.svg", across="data hosts")
    text = path.read_text(encoding="utf-8")
    for words in ("one", "two", "three", "data hosts", "measured", "ideal", "without"):
        assert f"<!-- {words} -->" in text, words
    assert text.count("<!-- without -->") == 1


def test_each_panel_names_its_own_unit(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    text = plot_panels([panel("one"), panel("two", "USD")], tmp_path / "p.svg").read_text(encoding="utf-8")
    assert "<!-- ms -->" in text and "<!-- USD -->" in text


def test_points_of_two_units_or_none_at_all_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    mixed = Panel("mixed", {**panel("one").points, 9.0: Figure.single(1.0, unit="us")}, {})
    with pytest.raises(UsageError, match="ms, us"):
        plot_panels([panel("one"), mixed], tmp_path / "p.svg")
    with pytest.raises(UsageError, match="none"):
        plot_panels([], tmp_path / "p.svg")
