"""A grid of bars."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.charts.bar_grid import BarPanel, plot_bar_grid
from tfhet.errors import UsageError
from tfhet.record import Figure

pytest.importorskip("matplotlib")


def panel(title: str, *names: str) -> BarPanel:
    return BarPanel(title, {name: Figure.single(1.0, unit="x") for name in names})


def test_a_grid_names_cases_quantities_and_bars_and_says_what_is_missing(tmp_path: Path) -> None:
    killed = BarPanel("time", {"small": None, "large": Figure.single(2.5, unit="x")}, missing="out of memory")
    whole = BarPanel("CPU %", {"small": None, "large": Figure.of([40.0, 50.0], unit="%")}, whole=100.0)
    written = plot_bar_grid({"memory": [killed, whole]}, tmp_path / "made" / "grid.svg", title="which")
    assert written.read_text().startswith("<?xml")
    from matplotlib.figure import Figure as Drawing

    drawn: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Drawing,
            "savefig",
            lambda self, *_, **__: (
                drawn.extend(
                    text.get_text()
                    for axes in self.axes
                    for text in (*axes.texts, *axes.get_yticklabels(), axes.title, axes.yaxis.label)
                )
                or drawn.extend(axes.get_title(loc="left") for axes in self.axes)
            ),
        )
        plot_bar_grid({"memory": [killed, whole]}, tmp_path / "grid.svg")
    assert {"out of memory", "2.50", "45.0", "small", "large", "memory", "time", "CPU %"} <= set(drawn)


def test_a_grid_of_nothing_but_what_is_missing_is_drawn(tmp_path: Path) -> None:
    assert plot_bar_grid({"a": [BarPanel("time", {"x": None})]}, tmp_path / "grid.png").stat().st_size > 0


@pytest.mark.parametrize(
    "rows",
    [
        {},
        {"a": [panel("t", "x")], "b": [panel("t", "x"), panel("u", "x")]},
        {"a": [panel("t", "x"), panel("u", "y")]},
    ],
)
def test_what_is_no_grid_is_refused(rows: dict[str, list[BarPanel]], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="as many panels"):
        plot_bar_grid(rows, tmp_path / "grid.png")
