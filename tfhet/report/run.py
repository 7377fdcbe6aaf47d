"""The short table that a run ends with, and several runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rich.table import Table
from rich.text import Text

from tfhet.errors import UsageError
from tfhet.record import RunSummary
from tfhet.report import numbers
from tfhet.report.tables import table

PLACES = ("data_group", "dnn_group", "trainer")
_COUNTS = ("seen", "before", "missing", "repeated", "bad")
_BAD_SHOWN = 3


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
    if not counted:
        return numbers.MISSING
    total = {name: sum(int(epoch.get(name) or 0) for epoch in counted) for name in _COUNTS}
    if any(total[name] for name in _COUNTS[1:]):
        shown = [name for name in _COUNTS if total[name] or name in ("seen", "missing", "repeated")]
        return ", ".join(f"{numbers.number(total[name])} {name}" for name in shown)
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


def run_table(summary: RunSummary, folder: Path | str | None = None) -> Table:
    """The short table of one run: step time, waiting share, throughput, where the stages ran, exit codes.

    folder: the run's folder, which the last line names. What was not measured shows as a dash.
    """
    wait_pct = summary.wait_pct
    rows: list[tuple[object, object]] = [
        ("cluster", _groups(summary)),
        ("step time", numbers.spread(summary.step_ms, "ms")),
        ("waiting for data", f"{numbers.percent(wait_pct)} of the step" if wait_pct is not None else None),
        ("examples/s", numbers.number(summary.examples_per_s)),
    ]
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
    if summary.cause:
        rows.append(("cause", Text(summary.cause, style="red")))
    if folder is not None:
        rows.append(("run record", str(folder)))
    named = f"{summary.name}: " if summary.name else ""
    return table(rows, columns=("what", "value"), title=f"{named}{summary.mode} run", header=False)


_COMPARED: tuple[tuple[str, Callable[[RunSummary], float | None]], ...] = (
    ("step time, median (ms)", lambda run: run.step_ms.median if run.step_ms else None),
    ("step time, p10 (ms)", lambda run: run.step_ms.p10 if run.step_ms else None),
    ("step time, p90 (ms)", lambda run: run.step_ms.p90 if run.step_ms else None),
    ("waiting for data (%)", lambda run: run.wait_pct),
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


def compare(named: Mapping[str, RunSummary]) -> Table:
    """Runs side by side, a column each, under the names given. Ratios are against the first.

    Lines that no run measured are left out. Raises UsageError when there is no run.
    """
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
