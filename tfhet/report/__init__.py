"""Records made readable: tables on the terminal, one HTML page, a run as it goes on. From records only.

from pathlib import Path
from tfhet import report

given = report.read_given([Path("runs/a")])
report.show(report.run_table(given.runs[0].run))
Path("a.html").write_text(report.page(given))
"""

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.report.cost import PriceOf, bill
    from tfhet.report.html import Given, page, read_given, write_html
    from tfhet.report.live import Screen, screen
    from tfhet.report.log_lines import gathered, has_colours, is_error, painted, place_of
    from tfhet.report.numbers import duration, number, usd
    from tfhet.report.picture import Picture
    from tfhet.report.progress import Step, progress_of
    from tfhet.report.run_view import RunView
    from tfhet.report.tables import compare, figure_table, run_table, show, show_next, table, text

lazy.names_on_demand(__name__)
