"""The picture, and what cannot be drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.charts.scatter import plot_points
from tfhet.errors import UsageError
from tfhet.record import Figure


def point(x: float, y: float) -> tuple[Figure, Figure]:
    return Figure.of([x, 1.1 * x], unit="s"), Figure.of([y, 1.2 * y], unit="USD")


def test_points_on_the_line_and_marked_ones_are_named_and_others_are_not(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    points = {"one": point(1, 3), "two": point(2, 2), "three": point(3, 4), "four": point(4, 1)}
    path = plot_points(
        points, tmp_path / "deep" / "p.svg", line=["one", "four"], marked={"two": "chosen"}, across="time"
    )
    text = path.read_text(encoding="utf-8")
    for words in ("one", "four", "chosen: two", "time"):
        assert f"<!-- {words} -->" in text, words
    assert "<!-- three -->" not in text


def test_no_points_and_another_suffix_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(UsageError, match="no points"):
        plot_points({}, tmp_path / "p.svg")
    with pytest.raises(UsageError, match=r"\.png"):
        plot_points({"one": point(1, 1)}, tmp_path / "p.gif")
