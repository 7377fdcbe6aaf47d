"""Bars through matplotlib."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.charts.plot import drawn, plot_bars
from tfhet.bench import Suite, run_suite
from tfhet.errors import UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record


def figures(*values: float) -> dict[str, Figure]:
    return {f"case {value:g}": Figure.of([value, value * 1.1, value * 0.9], unit="us") for value in values}


@pytest.mark.parametrize("values", [(100.0, 300.0), (1.0, 4000.0), (0.0, 5.0)])
def test_bars_are_written_near_and_far_apart(tmp_path: Path, values: tuple[float, ...]) -> None:
    pytest.importorskip("matplotlib")
    path = plot_bars(figures(*values), tmp_path / "deep" / "bars.svg", title="CPU per image")
    content = path.read_text()
    assert content.startswith("<?xml") and "</svg>" in content
    for words in (*figures(*values), "CPU per image"):
        assert f"<!-- {words} -->" in content, words
    assert plot_bars(figures(*values), tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("made", "name", "words"),
    [
        (figures(1.0), "bars.gif", r"\.png, \.svg, \.pdf"),
        ({}, "bars.png", "no figures"),
        ({**figures(1.0), "x": Figure.single(2, unit="x")}, "bars.png", "us, x"),
    ],
)
def test_what_cannot_be_drawn_is_wrong_use(tmp_path: Path, made: dict[str, Figure], name: str, words: str) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(UsageError, match=words):
        plot_bars(made, tmp_path / name)


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"pip install 'tfhet\[demo\]'"):
        plot_bars(figures(1.0), tmp_path / "bars.png")


def test_a_suite_that_draws_has_the_option_for_it_and_says_before_it_measures_what_no_picture_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")

    def measured(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
        return Record.of("toy", {"toy.us": Figure.of([1.0], unit="us")})

    suite = drawn(Suite("toy", "nothing", lambda parser: None, measured), lambda record, path: path)
    assert run_suite(suite, ["--plot", str(tmp_path / "toy.png")], "toy") == 0
    assert f"plot: {tmp_path / 'toy.png'}" in capsys.readouterr().out
    assert run_suite(suite, ["--plot", "toy.gif"], "toy") == 2
    assert "must end with one of .png, .svg, .pdf" in capsys.readouterr().err
