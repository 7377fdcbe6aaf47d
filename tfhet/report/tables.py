"""Tables and progress: fitted to the width of a terminal and in colour, plain in a file."""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from rich import box
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tfhet.errors import UsageError
from tfhet.record import Figure
from tfhet.report import numbers
from tfhet.report.log_lines import harmless

Step = Callable[[int, "int | None", str], None]
"""Arguments: number of finished steps, number of all steps (None if unknown), and their name."""
WHOLE = 10_000
"""Width of a screen, in characters, on which no cell is folded."""
_ASCII = {0x2500: "-", 0x2013: "-", 0x221E: "inf", 0xB1: "+-", 0x2192: "->", 0xD7: "x", 0x2713: "+", 0x2717: "x"}


class FittedTable(Table):
    """A table that fits the screen: it omits columns that matter less, then folds headings and cells between words."""

    extras = 0
    """Number of columns, at the right, that a narrow screen omits."""

    def fit(self, width: int) -> int:
        """Fits the table to `width` characters if its longest words allow it, and returns its width."""
        console = Console(width=WHOLE, force_jupyter=False)
        spans = []  # the widths of each column: with its cells folded, with its heading folded, with nothing folded
        for column in self.columns:
            parts = (column.header or "", *column.cells)
            heading, *cells = (Measurement.get(console, console.options, part) for part in parts)
            least = max(part.minimum for part in (heading, *cells))
            folded = max([least, *(cell.maximum for cell in cells)])
            spans.append((folded if column.no_wrap else least, folded, max(folded, heading.maximum)))
        omitted: list[str] = []
        while len(omitted) < self.extras and sum(span[1] + 3 for span in spans) - 1 > width:
            spans.pop()
            omitted.insert(0, str(self.columns.pop().header))
        if omitted:
            self.caption, self.caption_justify = f"left out (--wide): {', '.join(omitted)}", "left"
        widths = [span[2] for span in spans]
        for level in (1, 0):  # headings are folded before cells
            while sum(widths) + 3 * len(widths) - 1 > width:
                if not (foldable := [at for at, span in enumerate(spans) if widths[at] > span[level]]):
                    break
                widths[max(foldable, key=widths.__getitem__)] -= 1
        for column, own in zip(self.columns, widths, strict=True):
            column.width = own
        return max(width, sum(widths) + 3 * len(widths) - 1)


def table(
    rows: Sequence[Mapping[str, Any] | Sequence[Any]],
    *,
    columns: Sequence[str] | None = None,
    title: str | None = None,
    header: bool = True,
    extras: int = 0,
) -> FittedTable:
    """Returns a table: None as a dash, numbers with three significant digits, columns of numbers right-aligned. rows:
    mappings by column (by default all their keys), or sequences in the order of `columns`. extras: number of columns,
    at the right, that a narrow screen omits. Raises UsageError for rows of another length, or without `columns`."""
    if columns is None:
        if not all(isinstance(row, Mapping) for row in rows):
            raise UsageError("table: rows that are sequences need `columns`")
        columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[row.get(column) for column in columns] if isinstance(row, Mapping) else list(row) for row in rows]
    for line in cells:
        if len(line) != len(columns):
            raise UsageError(f"table: a row has {len(line)} cells for {len(columns)} columns: {line!r}")
    made = FittedTable(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_header=header, pad_edge=False)
    made.extras = extras
    for index, column in enumerate(columns):
        numeric = all(line[index] is None or _is_number(line[index]) for line in cells) and bool(cells)
        label = index == 0 and not header
        made.add_column(
            Text(harmless(str(column))), justify="right" if numeric else "left", overflow="fold", no_wrap=label
        )
    for line in cells:
        made.add_row(*(value if isinstance(value, Text) else Text(harmless(_text(value))) for value in line))
    return made


def _text(value: Any) -> str:
    return numbers.MISSING if value is None else numbers.number(value) if _is_number(value) else str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def figure_table(figures: Mapping[str, Figure], *, title: str | None = None) -> FittedTable:
    """Returns a row per figure: name, value, unit, interval and its level, number of samples, what it is a ratio to."""
    rows = [
        [
            *(name, numbers.number(figure.value), figure.unit, numbers.interval(figure), numbers.level(figure)),
            *(figure.n, figure.against or ""),
        ]
        for name, figure in figures.items()
    ]
    columns = ["figure", "value", "unit", "interval", "level", "n", "against"]
    shown = 7 if any(figure.against for figure in figures.values()) else 6
    made = table([row[:shown] for row in rows], columns=columns[:shown], title=title, extras=shown - 3)
    made.columns[1].justify = "right"
    return made


def show(made: RenderableType, file: IO[str] | None = None, *, wide: bool = False) -> None:
    """Prints a table on standard output or `file`, in colour on a terminal or if FORCE_COLOR is set. wide: folds
    nothing; otherwise the table fits the terminal, and COLUMNS or 80 elsewhere."""
    out, width = file or sys.stdout, WHOLE if wide else shutil.get_terminal_size().columns
    if Console(file=out).is_terminal:
        width = made.fit(width) if isinstance(made, FittedTable) else width
        Console(file=out, width=width).print(made, crop=False)
    else:
        out.write(text(made, encoding=getattr(out, "encoding", None), width=width))
        out.flush()


def text(made: RenderableType, *, encoding: str | None = "utf-8", width: int = WHOLE) -> str:
    """Returns the table as plain text fitted to `width` characters, in ASCII if `encoding` cannot write it."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=made.fit(width) if isinstance(made, FittedTable) else width,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,  # in a notebook rich would display the table instead of writing it
        legacy_windows=False,
    )
    console.print(made)
    lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
    plain, encoding = "\n".join(lines).strip("\n") + "\n", encoding or "ascii"
    try:
        plain.encode(encoding)
    except UnicodeEncodeError:
        plain = plain.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return plain


@contextlib.contextmanager
def progress_of(command: str, *, is_silent: bool = False, out: IO[str] | None = None) -> Iterator[Step]:
    """Yields a function that shows progress on `out` (standard error); is_silent: only on a terminal. No thread draws
    the bar: it would take CPU from measurements."""
    out = out or sys.stderr
    if not out.isatty():
        said = {""}

        def say(done: int, total: int | None, what: str) -> None:
            line = f"[{command}] {done} of {total or 'some'} {what}"
            if not is_silent and line not in said:
                said.add(line)
                print(line, file=out, flush=True)

        yield say
        return
    columns = (TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn())
    own = sys.stdout.isatty()  # else its lines would go to the bar's terminal, and not where they should
    with Progress(*columns, console=Console(file=out), auto_refresh=False, transient=True, redirect_stdout=own) as bar:
        task = bar.add_task(command, total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what, refresh=True)
