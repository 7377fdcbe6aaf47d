"""A table that fits a screen: it leaves out what matters less, and folds cells between words."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

WHOLE = 10_000
"""Columns of a screen on which no cell is ever cut or folded."""


class Span(NamedTuple):
    """The width of a table's column."""

    least: int
    """That of its longest word, or of its longest cell where cells are not to be folded."""
    folded: int
    """With a heading that is folded, and cells that are not."""
    whole: int
    """With nothing folded."""

    @classmethod
    def of(cls, column: Column) -> Span:
        console = Console(width=WHOLE, force_jupyter=False)
        heading, *cells = (
            Measurement.get(console, console.options, each) for each in (column.header or "", *column.cells)
        )
        least = max(each.minimum for each in (heading, *cells))
        folded = max([least, *(cell.maximum for cell in cells)])
        return cls(folded if column.no_wrap else least, folded, max(folded, heading.maximum))


class FittedTable(Table):
    """A table that knows which of its columns a narrow screen leaves out."""

    extras = 0
    """Number of columns, at the right, that are left out where the table would be wider than the screen."""

    def fit(self, width: int) -> int:
        """Fits the table to `width` columns, or to as many as its longest words need. Returns how many it has then."""
        spans = [Span.of(column) for column in self.columns]
        left_out: list[str] = []
        while len(left_out) < self.extras and sum(span.folded for span in spans) + _frame(spans) > width:
            spans.pop()
            left_out.insert(0, str(self.columns.pop().header))
        if left_out:
            self.caption, self.caption_justify = f"left out (--wide): {', '.join(left_out)}", "left"
        widths = [span.whole for span in spans]
        for floors in ([span.folded for span in spans], [span.least for span in spans]):  # headings are folded first
            while sum(widths) + _frame(spans) > width and widths != floors:
                foldable = (place for place, floor in enumerate(floors) if widths[place] > floor)
                widths[max(foldable, key=widths.__getitem__)] -= 1
        for column, columns in zip(self.columns, widths, strict=True):
            column.width = columns
        return max(width, sum(widths) + _frame(spans))


def _frame(columns: list[Span]) -> int:
    """Columns of the screen between and beside those of a table."""
    return 3 * len(columns) - 1
