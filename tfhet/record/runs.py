"""The runs that lie side by side in a folder, such as `runs/`."""

from __future__ import annotations

from pathlib import Path

from tfhet.record.folder import RunFolder

RUNS = Path("runs")
"""Folder of runs, unless another one is named."""


def runs_in(parent: Path) -> list[RunFolder]:
    """The runs in a folder, the latest first; none where there is no such folder."""
    found = [RunFolder(path) for path in parent.glob("*") if _is_run(path)]
    return sorted(found, key=lambda run: run.logs_path.stat().st_mtime, reverse=True)


def latest_in(path: Path) -> Path:
    """The folder of the latest run in a folder of runs; any other path as it is."""
    found = [] if _is_run(path) else runs_in(path)
    return found[0].path if found else path


def _is_run(path: Path) -> bool:
    return RunFolder(path).logs_path.is_dir()  # which is made at the start of a run
