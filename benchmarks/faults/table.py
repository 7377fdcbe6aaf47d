"""The table of faults: every case run on a simulated cluster of its own, one after the other."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cluster_runs import second_jobs
from benchmarks.cluster_runs.clusters import cluster_named
from benchmarks.cluster_runs.leftovers import Before, taken_away
from benchmarks.cluster_runs.observed_job import ObservedJob, new_place
from benchmarks.faults.case import BUSY, DAMAGES, EPOCHS, FaultCase
from benchmarks.faults.cases import CASES
from benchmarks.faults.outcome import FaultOutcome
from benchmarks.faults.sabotage import DAMAGED, damaged_digits, taken
from benchmarks.judge.runs_of_a_job import verdict
from tfhet.bench.harness import report
from tfhet.errors import UsageError, unknown
from tfhet.events import Observer
from tfhet.record import Figure, Record
from tfhet.simulate import Fault
from tfhet.simulate.fault import CUTS

_BESIDE = ("fault same-base", "fault half-checkpoint")
"""Faults before and after a run."""
MAX_RUN_S = 120.0
"""The cause of a run that the user ended, and the table with it."""


def run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    """Runs the cases that `options.only` chooses; with `options.more` those that the record lacks or saw broken. The
    record is written after each case. Raises UsageError."""
    cases, commands = chosen(options.only), [list(command)]
    done: dict[str, tuple[Any, Any]] = {}
    if options.more and options.json is None:
        raise UsageError("--more adds to a record: name its file by --json")
    if options.more and options.json.exists():
        earlier = Record.read(options.json).details
        found, again = zip(earlier["rows"], earlier["cases"], strict=True), {case.name for case in cases}
        done = {case["case"]: (row, case) for row, case in found if not (case["breaches"] and case["case"] in again)}
        commands = [*earlier["commands"], *commands]
    left = [case for case in cases if case.name not in done]
    record = _record(done, commands, command)
    with new_place("faults", keep=options.keep) as place:
        for index, case in enumerate(left):
            outcome = run_case(case, options.launcher, place / str(index))
            done[case.name] = outcome.row(), outcome.to_json()
            report(observer, case.name, index + 1, len(left), outcome.breaches or ["kept"], outcome.exit_s)
            if not outcome.breaches and not options.keep:
                shutil.rmtree(place / str(index), ignore_errors=True)
            record = _record(done, commands, command, str(place) if options.keep else None)
            if options.json is not None:
                record.write(options.json)
    return record


def _record(
    done: Mapping[str, tuple[Any, Any]], commands: Sequence[Any], command: Sequence[str], runs: str | None = None
) -> Record:
    found = [done[case.name] for case in CASES if case.name in done]
    details = {"rows": [row for row, _ in found], "cases": [case for _, case in found], "runs": runs}
    figures = figures_of([case for _, case in found])
    return Record.of("faults", figures, details=details | {"commands": list(commands)}, command=command)


def chosen(only: str) -> list[FaultCase]:
    """The cases with `only` in their names. Raises UsageError."""
    cases = [case for case in CASES if only in case.name]
    if not cases:
        unknown("fault case", only, [case.name for case in CASES])
    return cases


def run_case(case: FaultCase, launcher: Path, place: Path) -> FaultOutcome:
    """Runs one case in `place`, which must be new. Raises JobFailed when the user ends it."""
    place.mkdir(parents=True)
    cluster, damaged = cluster_named(case.cluster), case.before in DAMAGES
    if damaged:
        channel = damaged_digits(place / "data", case.before)
        cluster = dataclasses.replace(cluster, channels={"training": str(channel)})
    before, faults = Before.now(), [Fault.parse(text) for text in case.faults]
    how: dict[str, Any] = {"max_run_s": MAX_RUN_S, "variables": case.variables}
    job = ObservedJob(cluster, [str(launcher), *case.command()], place, faults=faults, **how)
    hosts = places(job)
    busy = case.before.removeprefix(BUSY) if case.before.startswith(BUSY) else ""
    with taken(job.hosts, job.named("dnn-1")[0], busy) if busy else contextlib.nullcontext():
        summary = job.run()
    jobs, resumed = [job], None
    if case.resumes:
        command = [str(launcher), *case.command(again=True)]
        again = ObservedJob(cluster, command, place / "again", checkpoints=job.checkpoints, **how)
        jobs, resumed = [job, again], again.run()
    gone = set().union(*(taken_away(fault, job) for fault in faults))
    # A host that is cut off for good, or was silent for too long, can clean up, and cannot hear how the job ended.
    apart = {host.name for f in faults if f.kind in CUTS and f.for_s is None for host in job.named(f.host)}
    events = list(job.folder.events())
    files = [path for path in job.checkpoints.rglob("*") if path.is_file() and path.name != "owner.json"]
    folders = [each.folder.path for each in jobs]
    return FaultOutcome(
        case=case,
        summary=summary,
        resumed=resumed,
        verdict=verdict(folders, EPOCHS, [DAMAGED] * damaged) if case.is_judged else None,
        ended=(summary.duration_s or 0.0) < MAX_RUN_S,
        exit_s=exit_s(case.kind, events, summary.started),
        happened=sum(event["event"] == "fault.injected" for event in events),
        odd=tuple(second_jobs.not_refused(events)),
        left=tuple(thing for each in jobs for thing in before.left_by(each, gone if each is job else ())),
        struck=frozenset({*gone, *apart, *(hosts[place] for place in case.lost)}),
        hosts=hosts,
        checkpoints=len(files),
    )


def places(job: ObservedJob) -> dict[str, str]:
    """`data-1`, `dnn-1` and so on to the names of the hosts."""
    found = {}
    for kind in ("data", "dnn"):
        number = 1
        while hosts := job.named(f"{kind}-{number}"):
            found[f"{kind}-{number}"] = hosts[0].name
            number += 1
    return found


def exit_s(kind: str, events: Sequence[Mapping[str, Any]], started_s: float | None) -> float | None:
    """Seconds to the exit of the last launcher, from the moment that matters for `kind`; None without one."""
    ends = _times(events, "launchers.gone")
    begins = {
        "never joined": [] if started_s is None else [started_s],
        "refused": _times(events, "job.decided"),
    }.get(kind, _times([e for e in events if not str(e.get("fault")).startswith(_BESIDE)], "fault.injected"))
    return max(ends) - min(begins) if ends and begins else None


def _times(events: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [float(event["time_s"]) for event in events if event["event"] == name]


def figures_of(cases: Sequence[Mapping[str, Any]]) -> Mapping[str, Figure]:
    """The flat table, of cases as `FaultOutcome.to_json` writes them."""
    failures = [case["exit_s"] for case in cases if case["kind"] == "failure" and case["exit_s"] is not None]
    return {
        "faults.cases": Figure.single(len(cases), unit="cases"),
        "faults.broken": Figure.single(sum(bool(case["breaches"]) for case in cases), unit="cases"),
        "faults.left_behind": Figure.single(sum(len(case["left"]) for case in cases), unit="things"),
        **({"faults.worst_exit_s": Figure.single(max(failures), unit="s")} if failures else {}),
    }
