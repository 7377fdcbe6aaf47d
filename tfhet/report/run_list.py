"""The runs of a folder as a list: when each began, how it ended, and how long its steps took."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from tfhet.errors import TfhetError, UsageError
from tfhet.record import RunSummary, runs_in
from tfhet.report import numbers

COLUMNS = ("run", "began (UTC)", "status", "step ms", "waiting %")


def run_list(folder: Path) -> list[dict[str, Any]]:
    """The runs in `folder` as JSON values, the latest first. Raises UsageError where there is none."""
    found = []
    for run in runs_in(folder):
        summary = RunSummary()
        with contextlib.suppress(TfhetError):  # it has not ended, or its summary cannot be read
            summary = run.read_summary()
        values = {name: getattr(summary, name) for name in ("started", "exit_code", "cause", "wait_pct")}
        found.append({"run": str(run.path), **values, "step_ms": summary.step_ms and summary.step_ms.median})
    if not found:
        raise UsageError(f"no runs in {folder}: `tfhet simulate` makes one, and `tfhet runs DIR` looks elsewhere")
    return found


def run_rows(runs: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    """The rows of a table of them, by COLUMNS."""
    rows: list[list[object]] = []
    for run in runs:
        code = run["exit_code"]
        words = "not ended" if code is None else "succeeded" if code == 0 else f"failed: {numbers.exit_code(code)}"
        status = Text(words, style={None: "yellow", 0: "green"}.get(code, "red"))
        began = numbers.moment(run["started"]).removesuffix(" UTC")
        rows.append([run["run"], began, status, run["step_ms"], run["wait_pct"]])
    return rows
