"""What people see of a record: tables on the terminal, one HTML page, a plot, a run as it goes. From records only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.report.html import Given, page, read_given, write_html
    from tfhet.report.run import compare, run_table
    from tfhet.report.tables import figure_table, show, table, text

__all__ = [
    "Given",
    "compare",
    "figure_table",
    "page",
    "read_given",
    "run_table",
    "show",
    "table",
    "text",
    "write_html",
]

lazy.names_on_demand(
    __name__,
    {
        "html": "Given page read_given write_html",
        "run": "compare run_table",
        "tables": "figure_table show table text",
    },
)
