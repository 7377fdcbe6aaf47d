"""One self-contained HTML page of runs, a profile, a plan and benchmark records, without network and scripts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2
import markupsafe

from tfhet.advice import of_run, paragraph, sentence
from tfhet.errors import DataError
from tfhet.record import Record, RunFolder, RunSummary, read_json, write_text
from tfhet.report import chart, numbers
from tfhet.report.chart import LineChart, line_chart
from tfhet.report.cost import PriceOf, cost_rows, headline, stage_costs
from tfhet.report.frontier import PlanView, frontier_chart, projected, read_plan
from tfhet.report.run_tables import parts_of_wait
from tfhet.report.run_view import LOG_LINES, STEPS, RunView, views
from tfhet.telemetry import timeline_tables

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def code(text: str) -> markupsafe.Markup:
    """Returns the HTML of a text, with `<code>` in place of backticks."""
    return markupsafe.Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(markupsafe.escape(text))))


_SHOWN = (numbers.number, numbers.percent, numbers.duration, numbers.size, numbers.moment, numbers.exit_code)
_OTHERS = (
    numbers.interval,
    numbers.usd,
    numbers.value,
    paragraph,
    parts_of_wait,
    sentence,
    chart.ends,
    chart.in_words,
    code,
)
_TEMPLATES.filters |= {"place": "{:.2f}".format, **{each.__name__: each for each in (*_SHOWN, *_OTHERS)}}


@dataclass(frozen=True)
class Given:
    """The material of one page."""

    runs: Sequence[RunView] = ()
    """The others are compared with the first."""
    records: Sequence[Record] = ()
    profile: Record | None = None
    plan: PlanView | None = None
    price_of: PriceOf | None = None
    """None: prices are not looked up."""


def read_given(paths: Sequence[Path], *, profile: Path | None = None, plan: Path | None = None) -> Given:
    """Reads folders of runs, summaries of runs and benchmark records, which are known by their content. Raises
    UsageError for a path with nothing to read or another schema, and DataError for other content."""
    runs: list[tuple[RunSummary, Path | None]] = []
    records = []
    for path in paths:
        if not path.is_file():
            runs.append((RunFolder(path).read_summary(), path))
            continue
        content = read_json(path, "run summary or benchmark record")
        if "figures" in content:
            records.append(Record.from_json(content, str(path)))
        elif "exit_codes" in content:
            runs.append((RunSummary.from_json(content, str(path)), None))
        else:
            raise DataError(f"{path} is neither a run summary nor a benchmark record", str(path))
    return Given(
        tuple(views(runs)),
        tuple(records),
        Record.read(profile) if profile else None,
        read_plan(read_json(plan, "plan"), str(plan)) if plan else None,
    )


def page(given: Given) -> str:
    """Returns the page. Raises DataError if the record of the profile is no profile."""
    places = [view.run.stages_where for view in given.runs]
    most_places = max(places, key=lambda each: len(set(each.values())), default={})
    costs = stage_costs(given.profile, most_places) if given.profile else None
    runs = {view.name: view.run for view in given.runs}
    rows = cost_rows(runs, given.price_of)
    plan, choice = given.plan, given.plan.decision[-1] if given.plan and given.plan.decision else ""
    parts = [(part.name, part.added) for part in costs.parts] if costs else []
    return _TEMPLATES.get_template("page.html.j2").render(
        views=[
            (view, of_run(view.run, parts, view.busiest_data_host, choice, waits=view.waits, events=view.happened))
            for view in given.runs
        ],
        cost_rows=rows,
        headline=headline(rows),
        is_simulated=any(view.is_simulated for view in given.runs),
        overlaid=overlaid,
        costs=costs,
        plan=plan,
        frontier=frontier_chart(plan) if plan else None,
        projected=projected(plan, runs) if plan else [],
        benchmarks=given.records,
        timeline_tables=timeline_tables,
        log_lines=LOG_LINES,
    )


def overlaid(runs: Sequence[RunView]) -> list[LineChart]:
    """Returns charts with a line per run, of the measures of at least two runs."""
    found = {view.name: view.lines for view in runs}
    charts = []
    for kind in dict.fromkeys(itertools.chain(*found.values())):
        (title, unit), x = STEPS.get(kind, (f"{kind} by epoch", "")), "step" if kind in STEPS else "epoch"
        charts.append(line_chart(title, unit, {name: own.get(kind, ()) for name, own in found.items()}, x=x))
    return [chart for chart in charts if chart and len(chart.lines) > 1]


def write_html(folder: RunFolder | Path | str, given: Given | None = None) -> Path:
    """Writes `report.html` into a run's folder and returns its path. Raises as `RunFolder.read_summary`."""
    folder = folder if isinstance(folder, RunFolder) else RunFolder(Path(folder))
    view = RunView.of(folder.read_summary(), folder)
    return write_text(folder.report_path, page(replace(given or Given(), runs=(view,), records=())))
