"""Tables on the terminal, of rows, figures and runs: fitted to its width, in colour there and plain in a file."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from rich import box
from rich.console import Console, RenderableType
from rich.text import Text

from tfhet.advice import peaks
from tfhet.errors import UsageError
from tfhet.record import Figure, RunFolder, RunSummary, Waiting, median
from tfhet.report import numbers
from tfhet.report.fitted_table import WHOLE, FittedTable
from tfhet.report.run_view import RunView

PLACES = ("data_group", "dnn_group", "trainer")
_COUNTS = ("seen", "before", "missing", "repeated", "bad", "left", "unused")
_WORDS = {"left": "not delivered when the script ended", "unused": "held by the script's own prefetch"}
_BAD_SHOWN = 3


def table(
    rows: Sequence[Mapping[str, Any] | Sequence[Any]],
    *,
    columns: Sequence[str] | None = None,
    title: str | None = None,
    header: bool = True,
    extras: int = 0,
) -> FittedTable:
    """A table of `rows`, each a mapping by column or a sequence in the order of `columns`. extras: number of columns,
    at the right, that matter less: a narrow screen leaves them out. Without `columns` the keys of the rows decide, in
    the order first seen. None becomes a dash, numbers are written with three significant digits, and a column of
    nothing but numbers is set to the right. Raises UsageError for rows without columns, or of another length."""
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
        made.add_column(Text(str(column)), justify="right" if numeric else "left", overflow="fold", no_wrap=label)
    for line in cells:
        made.add_row(*(value if isinstance(value, Text) else Text(_text(value)) for value in line))
    return made


def _text(value: Any) -> str:
    return numbers.MISSING if value is None else numbers.number(value) if _is_number(value) else str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def figure_table(figures: Mapping[str, Figure], *, title: str | None = None) -> FittedTable:
    """One line per figure: name, value with unit, interval and its level, number of samples, what it is against."""
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
    """Prints a table to `file` (standard output): in colour on a terminal, or where FORCE_COLOR is set, else plain. It
    is fitted to the width of the terminal; in a file or pipe to COLUMNS, or 80. wide: it is not."""
    out, width = file or sys.stdout, WHOLE if wide else shutil.get_terminal_size().columns
    if Console(file=out).is_terminal:
        width = made.fit(width) if isinstance(made, FittedTable) else width
        Console(file=out, width=width).print(made, crop=False)
    else:
        out.write(text(made, encoding=getattr(out, "encoding", None), width=width))
        out.flush()


def show_next(summary: RunSummary, folder: RunFolder | Path | None) -> None:
    """Prints the commands that come after a run, ready to be typed; nothing where its folder is not given."""
    folder = RunFolder(folder) if isinstance(folder, Path) else folder
    for place, command in enumerate(RunView.of(summary, folder).next_commands):
        print(f"{'then' if place else 'next'}: {command}")


def text(made: RenderableType, *, encoding: str | None = "utf-8", width: int = WHOLE) -> str:
    """The table as plain text without colours, trailing spaces or cut cells, fitted to `width`; ASCII where `encoding`
    knows no more."""
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


_ASCII = {0x2500: "-", 0x2013: "-", 0x221E: "inf", 0xB1: "+-", 0x2192: "->", 0xD7: "x", 0x2713: "+", 0x2717: "x"}


def places(summary: RunSummary) -> dict[str, list[str]]:
    """The stages by where they ran, in the order of the pipeline; places of the cluster first."""
    found: dict[str, list[str]] = {}
    for stage, place in summary.stages_where.items():
        found.setdefault(place, []).append(stage)
    return {place: found[place] for place in dict.fromkeys((*PLACES, *found)) if place in found}


def _groups(summary: RunSummary) -> str:
    parts = (
        f"{name} {len(group.get('hosts') or ())} x {group.get('instance_type') or 'host'}"
        for name, group in summary.cluster.items()
    )
    return ", ".join(parts) or numbers.MISSING


def _examples_seen(summary: RunSummary) -> str:
    """Whether every example came exactly once, over the epochs that counted."""
    counted = [epoch for epoch in summary.epochs if epoch.get("expected") is not None]
    if not counted or summary.not_counted:
        return f"not counted by id: {summary.not_counted}" if summary.not_counted else numbers.MISSING
    total = {name: sum(int(each.get(name) or 0) for each in (*counted, *summary.by_rank)) for name in _COUNTS}
    if any(total[name] for name in _COUNTS[1:]):
        shown = [name for name in _COUNTS if total[name] or name in ("seen", "missing", "repeated")]
        return ", ".join(f"{numbers.number(total[name])} {_WORDS.get(name, name)}" for name in shown)
    readable = " that can be read" if summary.bad_records else ""
    epochs = f"{len(counted)} epoch{'s' * (len(counted) != 1)}"
    return f"each of {numbers.number(total['seen'])}{readable} exactly once, {epochs}"


def _made_good(summary: RunSummary) -> str:
    """The failures that did not end the job; "" when there were none."""
    rereads = sum(int(epoch.get("rereads") or 0) for epoch in summary.epochs)
    failures = {
        f"lost {', '.join(summary.lost_hosts)}": summary.lost_hosts,
        f"{summary.restarts} processes started again": summary.restarts,
        f"what was left was read again, {rereads} time{'s' * (rereads != 1)}": rereads,
    }
    return "; ".join(words for words, happened in failures.items() if happened)


def waiting(waits: Waiting) -> str | None:
    """The mean share of waiting for data, with its median; None where it is not known."""
    if waits.mean_pct is None:
        return None
    middle = "" if waits.median_pct is None else f", median {numbers.percent(waits.median_pct)}"
    return f"{numbers.percent(waits.mean_pct)} of the step{middle}"


def parts_of_wait(waits: Waiting) -> list[tuple[str, str]]:
    """The parts of the wait by name, in words; none where all that counts is the steady state (`advice.peaks`)."""
    parts = {"at epoch starts": waits.epoch_starts, "in stalls": waits.stalls, "in the steady state": waits.steady}
    rows = []
    for name, part in parts.items():
        if part.waits_s and peaks(waits):
            lasts = f"{numbers.duration(part.total_s)} in {len(part.steps) or 'all steps'}"
            middle = f"median {numbers.duration(median(part.waits_s))}, mean {numbers.duration(part.mean_s)}"
            cost = f"{numbers.percent(part.share_pct)} of the time ({lasts}; {middle})"
            rows.append((name, f"{cost}; without it {numbers.number(part.faster)} times faster"))
    return rows


def run_table(summary: RunSummary, folder: Path | str | None = None) -> FittedTable:
    """The short table of one run: its errors, step time, waiting share, throughput, where the stages ran, exit codes.
    folder: the run's folder, which the last line names. What was not measured shows as a dash."""
    waits = Waiting.of_run(summary, RunView.of(summary, RunFolder(folder)).timeline.steps if folder else ())
    errors = [("cause", summary.cause)] if summary.cause else []
    errors += [("failed, too", failure) for failure in summary.failures]
    rows: list[tuple[object, object]] = [
        *((what, Text(words, style="red")) for what, words in errors),
        ("cluster", _groups(summary)),
        ("step time", numbers.spread(summary.step_ms, "ms")),
        ("waiting for data", waiting(waits)),
        *parts_of_wait(waits),
        ("examples/s", numbers.number(summary.examples_per_s)),
    ]
    if len(summary.by_rank) > 1:
        steps, shares = ([each[name] for each in summary.by_rank] for name in ("step_ms", "wait_pct"))
        between = f"step {numbers.number(min(steps))} to {numbers.number(max(steps), unit='ms')}, waiting "
        rows.append(("of the ranks", f"{between}{numbers.percent(min(shares))} to {numbers.percent(max(shares))}"))
    if summary.epochs:
        rows.append(("examples", _examples_seen(summary)))
    if made_good := _made_good(summary):
        rows.append(("made good", made_good))
    for record in summary.bad_records[:_BAD_SHOWN]:
        where = f"{record.get('file') or ''} at byte {record.get('offset')}"
        rows.append(("bad record", f"{where}: {record.get('reason')}"))
    if len(summary.bad_records) > _BAD_SHOWN:
        rows.append(("bad records", f"{len(summary.bad_records)} are listed in summary.json"))
    if summary.billable_s is not None:
        rows.append(("paid", f"{numbers.usd(summary.usd)} for {numbers.duration(summary.billable_s)}"))
    for host, used in summary.plane_use.items():
        words = (
            f"{name.replace('_bytes', '').replace('_', ' ')} {numbers.size(value)}" for name, value in used.items()
        )
        rows.append((f"used on {host}", ", ".join(words)))
    for name, value in summary.metrics.items():
        rows.append((name, numbers.number(value) if isinstance(value, (int, float)) else value))
    for place, stages in places(summary).items():
        rows.append((f"on {place}", "; ".join(stages)))
    groups = {host: name for name, group in summary.cluster.items() for host in group.get("hosts") or ()}
    for host, code in summary.exit_codes.items():
        group = groups.get(host.partition("/")[0])
        shown = Text(numbers.exit_code(code), style="green" if code == 0 else "bold red")
        rows.append((f"exit code of {host}" + (f" ({group})" if group else ""), shown))
    if summary.exit_code is not None or not summary.exit_codes:
        job = Text(numbers.exit_code(summary.exit_code), style="green" if summary.succeeded else "bold red")
        rows.append(("exit code of the job", job))
    if folder is not None:
        rows.append(("run record", str(folder)))
    named = f"{summary.name}: " if summary.name else ""
    return table(rows, columns=("what", "value"), title=f"{named}{summary.mode} run", header=False)


_COMPARED: tuple[tuple[str, Callable[[RunSummary], float | None]], ...] = (
    ("step time, median (ms)", lambda run: run.step_ms.median if run.step_ms else None),
    ("step time, p10 (ms)", lambda run: run.step_ms.p10 if run.step_ms else None),
    ("step time, p90 (ms)", lambda run: run.step_ms.p90 if run.step_ms else None),
    ("waiting for data (%)", lambda run: run.wait_pct),
    ("waiting for data, median (%)", lambda run: Waiting.of_run(run).median_pct),
    ("waiting in the steady state (%)", lambda run: Waiting.of_run(run).steady_pct),
    ("examples/s", lambda run: run.examples_per_s),
    ("bytes/example on the wire", lambda run: run.bytes_per_example),
    ("first batch (s)", lambda run: run.first_batch_s),
    ("teardown (s)", lambda run: run.teardown_s),
    ("restarts", lambda run: run.restarts),
    ("USD per million examples", lambda run: run.usd_per_million_examples),
    ("billable (s)", lambda run: run.billable_s),
    ("USD", lambda run: run.usd),
)
_RATIOS = ("step time, median (ms)", "examples/s", "USD per million examples")


def compare(named: Mapping[str, RunSummary]) -> FittedTable:
    """Runs side by side, a column each, under the names given. Ratios are against the first. Lines that no run measured
    are left out. Raises UsageError when there is no run."""
    if not named:
        raise UsageError("compare: give at least one run")
    runs = list(named.values())
    rows: list[list[object]] = [["cluster", *(_groups(run) for run in runs)], ["mode", *(run.mode for run in runs)]]
    for what, get in _COMPARED:
        values = [get(run) for run in runs]
        if any(value is not None for value in values):
            shown = [numbers.number(value) for value in values]
            if what in _RATIOS and (first := values[0]):
                for index, value in enumerate(values[1:], 1):
                    shown[index] += "" if value is None else f" ({numbers.number(value / first)}x)"
            rows.append([what, *shown])
    metrics = dict.fromkeys(name for run in runs for name in run.metrics)
    rows += [[name, *(run.metrics.get(name) for run in runs)] for name in metrics]
    rows.append(["exit code", *(numbers.exit_code(run.exit_code) for run in runs)])
    return table(rows, columns=["", *named])
