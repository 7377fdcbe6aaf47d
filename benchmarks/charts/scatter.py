"""Points with intervals both ways, each with its name, and a line through some of them; through matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.charts.plot import _matplotlib, check_plot
from tfhet.errors import UsageError
from tfhet.record import Figure


def plot_points(
    points: Mapping[str, tuple[Figure, Figure]],
    path: Path | str,
    *,
    line: Sequence[str] = (),
    marked: Mapping[str, str] = {},
    across: str = "",
    upwards: str = "",
    title: str = "",
) -> Path:
    """Writes the points, name -> (across, upwards), to `path` (.png, .svg or .pdf). `line` names those that are joined,
    in this order; `marked` has a word for those that stand out: they are diamonds, and the word precedes their name.

    Raises UsageError for no points, another suffix, or when matplotlib is missing.
    """
    check_plot(path)
    if not points:
        raise UsageError(f"plot {path}: there are no points")
    drawing = _matplotlib().Figure(figsize=(8.0, 5.0), layout="constrained")
    axes = drawing.add_subplot()
    joined = [points[name] for name in line]
    axes.plot([x.value for x, _ in joined], [y.value for _, y in joined], "-", color="#a3a29b", linewidth=1.2, zorder=1)
    for name, (x, y) in points.items():
        word = marked.get(name, "")
        axes.errorbar(
            [x.value],
            [y.value],
            xerr=[[max(0.0, x.value - x.low)], [max(0.0, x.high - x.value)]],
            yerr=[[max(0.0, y.value - y.low)], [max(0.0, y.high - y.value)]],
            fmt="D" if word else "o",
            color="#2a78d6" if word else "#52514e",
            ecolor="#c3c2b7",
            markersize=8 if word else 4,
            linewidth=1,
            capsize=2,
        )
        if word or name in line:
            told = f"{word}: {name}" if word else name
            axes.annotate(told, (x.value, y.value), xytext=(7, 5), textcoords="offset points", fontsize=8)
    axes.set_xlim(left=0.0)
    axes.set_ylim(bottom=0.0)
    axes.margins(x=0.2)
    axes.set_xlabel(across, color="#52514e")
    axes.set_ylabel(upwards, color="#52514e")
    axes.tick_params(colors="#52514e", length=0)
    axes.grid(color="#e1e0d9", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if title:
        axes.set_title(title, loc="left", fontsize=11, color="#0b0b0b")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=160)
    return path
