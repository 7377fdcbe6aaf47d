"""What a page is made of, read from the paths that were given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfhet.errors import DataError
from tfhet.record import Record, RunFolder, RunSummary, document
from tfhet.record.run import KIND as RUN_KIND
from tfhet.report.cost import PriceOf
from tfhet.report.frontier import PlanView, read_plan
from tfhet.report.run_view import RunView, views


@dataclass(frozen=True)
class Given:
    """The material of one page; everything may be absent."""

    runs: Sequence[RunView] = ()
    """The first is what the others are compared with."""
    records: Sequence[Record] = ()
    """Of benchmarks."""
    profile: Record | None = None
    """What `tfhet profile --json` wrote."""
    plan: PlanView | None = None
    """What `tfhet plan --json` wrote."""
    price_of: PriceOf | None = None
    """None: prices are not looked up."""


def read_given(
    paths: Sequence[Path],
    *,
    profile: Path | None = None,
    plan: Path | None = None,
    price_of: PriceOf | None = None,
) -> Given:
    """Reads what `paths` name: folders of runs, summaries of runs and benchmark records, each known by its content.

    Raises UsageError for a path with nothing to read or of another schema, DataError for a file that is neither.
    """
    runs: list[tuple[RunSummary, Path | None]] = []
    records = []
    for path in paths:
        if not path.is_file():
            runs.append((RunFolder(path).read_summary(), path))
            continue
        content = document.read(path, "run summary or benchmark record")
        if "figures" in content:
            records.append(Record.from_json(content, str(path)))
        elif "exit_codes" in content:
            runs.append((RunSummary.from_json(content, str(path)), None))
        else:
            raise DataError(f"{path} is neither a {RUN_KIND} nor a benchmark record", str(path))
    return Given(
        tuple(views(runs)),
        tuple(records),
        Record.read(profile) if profile else None,
        read_plan(document.read(plan, "plan"), str(plan)) if plan else None,
        price_of,
    )
