"""The pages and tables of runs and records: what `tfhet report` writes and prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tfhet import catalogue
from tfhet.errors import UsageError, unknown
from tfhet.record import RunSummary, document
from tfhet.report.cost import PriceOf
from tfhet.report.figures import figure_table
from tfhet.report.given import read_given
from tfhet.report.html import page, write_html
from tfhet.report.run import compare, run_table
from tfhet.report.tables import show


def write_pages(
    paths: Sequence[Path],
    *,
    profile: Path | None = None,
    plan: Path | None = None,
    region: str = "us-east-1",
    html: Path | None = None,
    json_file: Path | None = None,
) -> None:
    """Writes report.html into the folder of each run, and the page of all that was given; prints the tables.

    The page of all goes to `html`; without it, where there is more than one folder of a run to show, to report.html
    here. Raises UsageError or DataError for what cannot be read, UsageError for a region of which no price is known.
    """
    given = read_given(paths, profile=profile, plan=plan)
    given = replace(given, price_of=_prices([view.run for view in given.runs], region))
    folders = [view.folder for view in given.runs if view.folder]
    for folder in folders:
        print(write_html(folder, given))
    if html or len(folders) != 1 or len(paths) != 1:
        print(document.write_text(html or Path("report.html"), page(given)))
    if len(given.runs) > 1:
        show(compare({view.name: view.run for view in given.runs}))
    for view in given.runs[:1] if len(given.runs) == 1 else ():
        show(run_table(view.run, view.folder.path if view.folder else None))
    for record in given.records:
        show(figure_table(record.figures, title=record.name))
    if json_file:
        written = [view.run.to_json() for view in given.runs] + [record.to_json() for record in given.records]
        json_file.write_text(json.dumps(written, indent=1), encoding="utf-8")


def _prices(runs: Sequence[RunSummary], region: str) -> PriceOf:
    """The prices of the market that knows most of the runs' types: those of two markets are not to be compared."""
    known = catalogue.default()
    if region not in known.regions():
        unknown("region", region, known.regions())
    types = {group.get("instance_type") for run in runs for group in run.cluster.values()}

    def is_priced(name: object, market: str) -> bool:
        try:
            return known.price(str(name), region, market) is not None
        except UsageError:
            return False

    market = max(catalogue.MARKETS, key=lambda market: sum(is_priced(name, market) for name in types))
    return lambda name: known.price(name, region, market)
