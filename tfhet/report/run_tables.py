"""Tables of runs: one run, and the runs of a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from tfhet.advice import peaks, unread
from tfhet.errors import TfhetError, UsageError
from tfhet.record import RunFolder, RunSummary, Waiting, median, runs_in
from tfhet.report import numbers
from tfhet.report.run_view import RunView
from tfhet.report.tables import FittedTable, table

PLACES = ("data_group", "dnn_group", "trainer")
COLUMNS = ("run", "began (UTC)", "status", "step ms", "waiting %")
_COUNTS = ("seen", "before", "missing", "repeated", "bad", "left", "unused")
_WORDS = {"left": "not delivered when the script ended", "unused": "held by the script's own prefetch"}
_BAD_SHOWN = 3


def show_next(summary: RunSummary, folder: RunFolder | Path | None) -> None:
    """Prints the commands to type after a run; nothing without its folder."""
    folder = RunFolder(folder) if isinstance(folder, Path) else folder
    for place, command in enumerate(RunView.of(summary, folder).next_commands):
        print(f"{'then' if place else 'next'}: {command}")


def places(summary: RunSummary) -> dict[str, list[str]]:
    """Returns the stages by the place where they ran, in the order of PLACES and then of the pipeline."""
    found: dict[str, list[str]] = {}
    for stage, place in summary.stages_where.items():
        found.setdefault(place, []).append(stage)
    return {place: found[place] for place in dict.fromkeys((*PLACES, *found)) if place in found}


def instances(summary: RunSummary) -> str:
    """Returns the groups of the cluster with the number and type of their hosts."""
    parts = (
        f"{name} {len(group.get('hosts') or ())} x {group.get('instance_type') or 'host'}"
        for name, group in summary.cluster.items()
    )
    return ", ".join(parts) or numbers.MISSING


def _examples_seen(summary: RunSummary) -> str:
    """Whether the counted epochs had every example exactly once."""
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
    """Failures that did not end the job; may be empty."""
    rereads = sum(int(epoch.get("rereads") or 0) for epoch in summary.epochs)
    failures = {
        f"lost {', '.join(summary.lost_hosts)}": summary.lost_hosts,
        f"{summary.restarts} processes started again": summary.restarts,
        f"what was left was read again, {rereads} time{'s' * (rereads != 1)}": rereads,
    }
    return "; ".join(words for words, happened in failures.items() if happened)


def waiting(waits: Waiting) -> str | None:
    """Returns the mean and median share of the step that waits for data; None if it is unknown."""
    if waits.mean_pct is None:
        return None
    middle = "" if waits.median_pct is None else f", median {numbers.percent(waits.median_pct)}"
    return f"{numbers.percent(waits.mean_pct)} of the step{middle}"


def parts_of_wait(waits: Waiting) -> list[tuple[str, str]]:
    """Returns name and cost of each part of the wait; nothing if only the steady state matters (`advice.peaks`)."""
    parts = {"at epoch starts": waits.epoch_starts, "in stalls": waits.stalls, "in the steady state": waits.steady}
    rows = []
    for name, part in parts.items():
        if part.waits_s and peaks(waits):
            lasts = f"{numbers.duration(part.total_s)} in {len(part.steps) or 'all steps'}"
            middle = f"median {numbers.duration(median(part.waits_s))}, mean {numbers.duration(part.mean_s)}"
            cost = f"{numbers.percent(part.share_pct)} of the time ({lasts}; {middle})"
            rows.append((name, f"{cost}; without it {numbers.number(part.faster)} times faster"))
    return rows


def _watched(summary: RunSummary) -> list[tuple[object, object]]:
    """Reader, memory and CPUs of a run of `tfhet watch`."""
    found, rows = summary.watched, list[tuple[object, object]]()
    if found.get("reader"):
        settings = ", ".join(f"{name}={value}" for name, value in found["settings"].items() if value is not None)
        rows.append(("reader", f"{found['reader']} ({settings})"))
    if peak := found.get("memory_pss_peak_bytes"):
        rows.append(("memory, peak", numbers.size(peak)))
    if used := found.get("cpus_used"):
        rows.append(("CPUs used", ", ".join(f"{name} {numbers.number(value)}" for name, value in used.items())))
    return rows


def run_table(summary: RunSummary, folder: Path | str | None = None) -> FittedTable:
    """Returns the table of one run; `folder` has its timeline, and is named in the last row."""
    waits = Waiting.of_run(summary, RunView.of(summary, RunFolder(folder)).timeline.steps if folder else ())
    errors = [("cause", summary.cause)] if summary.cause else []
    errors += [("failed, too", failure) for failure in summary.failures]
    rows: list[tuple[object, object]] = [
        *((what, Text(words, style="red")) for what, words in errors),
        ("cluster", instances(summary)),
        ("step time", numbers.spread(summary.step_ms, "ms")),
        ("waiting for data", waiting(waits)),
        *parts_of_wait(waits),
        ("examples/s", numbers.number(summary.examples_per_s)),
    ]
    if len(summary.by_rank) > 1:
        steps, shares = ([each[name] for each in summary.by_rank] for name in ("step_ms", "wait_pct"))
        between = f"step {numbers.number(min(steps))} to {numbers.number(max(steps), unit='ms')}, waiting "
        rows.append(("of the ranks", f"{between}{numbers.percent(min(shares))} to {numbers.percent(max(shares))}"))
    rows += _watched(summary)
    if found := unread(summary):
        rows.append(("not read by tfhet", found.clause))
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


def run_list(folder: Path) -> list[dict[str, Any]]:
    """Returns the runs in `folder` as JSON values, the latest first. Raises UsageError without a run."""
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
    """Returns the rows of a table of `run_list`, in the order of COLUMNS."""
    rows: list[list[object]] = []
    for run in runs:
        code = run["exit_code"]
        words = "not ended" if code is None else "succeeded" if code == 0 else f"failed: {numbers.exit_code(code)}"
        status = Text(words, style={None: "yellow", 0: "green"}.get(code, "red"))
        began = numbers.moment(run["started"]).removesuffix(" UTC")
        rows.append([run["run"], began, status, run["step_ms"], run["wait_pct"]])
    return rows
