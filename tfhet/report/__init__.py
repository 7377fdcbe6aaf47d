"""What people see of a record: tables on the terminal, one HTML page per run, a plot. From records only."""

from __future__ import annotations

from tfhet.report.figures import figure_table
from tfhet.report.html import render_html, write_html
from tfhet.report.plot import check_plot, plot_bars
from tfhet.report.run import compare, run_table
from tfhet.report.table import show, table, text

__all__ = [
    "check_plot",
    "compare",
    "figure_table",
    "plot_bars",
    "render_html",
    "run_table",
    "show",
    "table",
    "text",
    "write_html",
]
