"""One self-contained page per run: no network, no scripts, light and dark, readable on a telephone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from tfhet.record import RunFolder, RunSummary, document
from tfhet.report import numbers
from tfhet.report.chart import LineChart, line_chart
from tfhet.report.run import places

TEMPLATES = Path(__file__).parent / "templates"
EVENTS_SHOWN = 200
LOG_LINES = 40


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=numbers.number,
        percent=numbers.percent,
        duration=numbers.duration,
        size=numbers.size,
        moment=numbers.moment,
        exit_code=numbers.exit_code,
        value=_value,
    )
    return environment


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or numbers.MISSING
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return numbers.number(value)
    return str(value)


def _charts(summary: RunSummary) -> list[tuple[str, LineChart]]:
    found = []
    if summary.step_ms is not None:
        chart = line_chart("Step time (ms)", summary.step_ms.samples, "ms")
        found += [("step", chart)] if chart else []
    if summary.step_ms is not None and summary.wait_ms is not None:
        pairs = zip(summary.wait_ms.samples, summary.step_ms.samples, strict=False)
        shares = [100.0 * min(1.0, max(0.0, wait / step)) if step > 0 else 0.0 for wait, step in pairs]
        chart = line_chart("Share of the step waiting for data (%)", shares, "%", top=100.0)
        found += [("wait", chart)] if chart else []
    return found


def _tiles(summary: RunSummary) -> list[tuple[str, str, str]]:
    step = summary.step_ms
    behind = f"p10 {numbers.number(step.p10)}, p90 {numbers.number(step.p90)}" if step else ""
    cost = summary.usd_per_million_examples
    tiles = [
        ("Step time, median", numbers.number(step.median if step else None, unit="ms"), behind),
        ("Waiting for data", numbers.percent(summary.wait_pct), "of the step"),
        ("Examples per second", numbers.number(summary.examples_per_s), _ranks(summary)),
        ("First batch after", numbers.duration(summary.first_batch_s), ""),
        ("Teardown", numbers.duration(summary.teardown_s), "last rank to last host"),
    ]
    if summary.bytes_per_example is not None:
        tiles.append(("On the wire", numbers.size(summary.bytes_per_example), "per example"))
    if cost is not None:
        tiles.append(("Cost", f"${numbers.number(cost)}", "per million examples"))
    return tiles


def _ranks(summary: RunSummary) -> str:
    if summary.ranks is None:
        return ""
    each = f" of batch {numbers.number(summary.batch_size)}" if summary.batch_size is not None else ""
    return f"{summary.ranks} rank{'s' * (summary.ranks != 1)}{each}"


def _events(folder: RunFolder, summary: RunSummary) -> tuple[list[dict[str, str]], int]:
    rows = []
    begin = summary.started
    for event in folder.events():
        at = event.get("time_s")
        known = isinstance(at, (int, float))
        if begin is None and known:
            begin = float(at)  # type: ignore[arg-type]
        rest = "  ".join(f"{key}={_value(value)}" for key, value in event.items() if key not in ("time_s", "event"))
        when = f"{float(at) - begin:+.2f} s" if known and begin is not None else ""  # type: ignore[arg-type]
        rows.append({"when": when, "name": str(event.get("event", "")), "rest": rest})
    if len(rows) <= EVENTS_SHOWN:
        return rows, 0
    half = EVENTS_SHOWN // 2
    return rows[:half] + rows[-half:], len(rows) - 2 * half


def _columns(rows: tuple[Mapping[str, Any], ...]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def render_html(folder: RunFolder | Path | str) -> str:
    """The page of a run's folder as text.

    Raises UsageError when the folder has no summary or one of another schema, DataError when it cannot be read.
    """
    folder = folder if isinstance(folder, RunFolder) else RunFolder(Path(folder))
    summary = folder.read_summary()
    events, hidden = _events(folder, summary)
    epochs = tuple(summary.epochs)
    return (
        _environment()
        .get_template("run.html.j2")
        .render(
            run=summary,
            title=summary.name or folder.path.name,
            state=_state(summary),
            tiles=_tiles(summary),
            charts=_charts(summary),
            places=places(summary),
            epochs=epochs,
            epoch_columns=_columns(epochs),
            events=events,
            events_hidden=hidden,
            logs=[(host, folder.log_tail(host, LOG_LINES)) for host in folder.hosts()],
            log_lines=LOG_LINES,
            facts=_facts(summary),
        )
    )


def _state(summary: RunSummary) -> tuple[str, str]:
    if summary.exit_code is None:
        return "open", "not ended"
    if summary.exit_code == 0:
        return "good", "succeeded"
    return "bad", f"failed, exit code {numbers.exit_code(summary.exit_code)}"


def _facts(summary: RunSummary) -> list[tuple[str, str]]:
    machine = dict(summary.machine)
    memory = machine.pop("memory_bytes", None)
    facts = [(key.replace("_", " "), _value(value)) for key, value in machine.items() if value not in (None, [], "")]
    if isinstance(memory, (int, float)):
        facts.append(("memory", numbers.size(memory)))
    return facts + [(name, str(version)) for name, version in summary.versions.items()]


def write_html(folder: RunFolder | Path | str) -> Path:
    """Writes `report.html` into the run's folder and returns its path. Raises what `render_html` raises."""
    folder = folder if isinstance(folder, RunFolder) else RunFolder(Path(folder))
    return document.write_text(folder.report_path, render_html(folder))
