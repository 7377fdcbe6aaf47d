"""Tables on the terminal: in colour and fitted to its width there, plain and never cut in a log or a file."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tfhet.errors import UsageError
from tfhet.record import Figure
from tfhet.report.numbers import MISSING, interval, number

PLAIN_WIDTH = 10_000
"""Columns of a plain output: wide enough that no cell is ever cut or folded."""


def table(
    rows: Sequence[Mapping[str, Any] | Sequence[Any]],
    *,
    columns: Sequence[str] | None = None,
    title: str | None = None,
    header: bool = True,
) -> Table:
    """A table of `rows`, each a mapping by column or a sequence in the order of `columns`.

    Without `columns` the keys of the rows decide, in the order first seen. None becomes a dash, numbers are written
    with three significant digits, and a column of nothing but numbers is set to the right. Raises UsageError for rows
    without columns, or of another length.
    """
    if columns is None:
        if not all(isinstance(row, Mapping) for row in rows):
            raise UsageError("table: rows that are sequences need `columns`")
        columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[row.get(column) for column in columns] if isinstance(row, Mapping) else list(row) for row in rows]
    for line in cells:
        if len(line) != len(columns):
            raise UsageError(f"table: a row has {len(line)} cells for {len(columns)} columns: {line!r}")
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_header=header, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = all(line[index] is None or _is_number(line[index]) for line in cells) and bool(cells)
        made.add_column(Text(str(column)), justify="right" if numeric else "left", overflow="fold")
    for line in cells:
        made.add_row(*(value if isinstance(value, Text) else Text(_text(value)) for value in line))
    return made


def _text(value: Any) -> str:
    return MISSING if value is None else number(value) if _is_number(value) else str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def figure_table(figures: Mapping[str, Figure], *, title: str | None = None) -> Table:
    """One line per figure: name, value with unit, 95 % interval, number of samples, what it is against."""
    rows = [
        [name, number(figure.value), figure.unit, interval(figure), figure.n, figure.against or ""]
        for name, figure in figures.items()
    ]
    columns = ["figure", "value", "unit", "95 % interval", "n", "against"]
    shown = 6 if any(figure.against for figure in figures.values()) else 5
    made = table([row[:shown] for row in rows], columns=columns[:shown], title=title)
    made.columns[1].justify = "right"
    return made


def show(made: Table, file: IO[str] | None = None) -> None:
    """Prints the table to `file` (standard output): coloured on a terminal, plain elsewhere."""
    out = file or sys.stdout
    if out.isatty():
        Console(file=out).print(made)
    else:
        out.write(text(made, encoding=getattr(out, "encoding", None)))
        out.flush()


def text(made: Table, *, encoding: str | None = "utf-8") -> str:
    """The table as plain text without colours, trailing spaces or cut cells; ASCII where `encoding` knows no more."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=PLAIN_WIDTH,
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


_ASCII = {0x2500: "-", 0x2013: "-", 0x221E: "inf", 0xB1: "+-", 0x2192: "->", 0xD7: "x"}
