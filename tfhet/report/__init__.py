"""What people see of a record: tables on the terminal, one HTML page, a plot, a run as it goes. From records only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.report.figures import figure_table
    from tfhet.report.given import Given, read_given
    from tfhet.report.html import page, render_html, write_html
    from tfhet.report.run import compare, run_table
    from tfhet.report.tables import show, table, text

__all__ = [
    "Given",
    "compare",
    "figure_table",
    "page",
    "read_given",
    "render_html",
    "run_table",
    "show",
    "table",
    "text",
    "write_html",
]

lazy.names_on_demand(
    __name__,
    {
        "figures": "figure_table",
        "given": "Given read_given",
        "html": "page render_html write_html",
        "run": "compare run_table",
        "tables": "show table text",
    },
)
