"""`benchmarks.faults`: what a job does when something is done to it.

The table, case by case: whether it ended, how long after the fault the last launcher was gone, with which codes, what
it named as the cause, which examples were missing or came twice, what was left behind; and whether that keeps the
promise for its kind. `--endurance`: throughput while workers are killed all the time. `--overhead`: what watching
costs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults import endurance, overhead, table as fault_table
from tfhet.bench.suite import Suite
from tfhet.errors import UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record
from tfhet.report import table, text


def _options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--endurance",
        action="store_true",
        help="instead of the table: throughput while a worker is killed every 5 s, against that without, in --repeats"
        " pairs of runs",
    )
    what.add_argument(
        "--overhead",
        action="store_true",
        help="instead of the table: CPU of the launchers and their links on --repeats undisturbed runs",
    )
    what.add_argument("--list", action="store_true", help="instead of running the cases of the table: list them")
    parser.add_argument("--launcher", type=Path, default=Path("scripts/launcher.py"), help="default %(default)s")
    parser.add_argument("--only", default="", metavar="TEXT", help="the cases of the table whose name contains it")
    parser.add_argument(
        "--more", action="store_true", help="run the cases that the record of --json lacks or saw broken, and add them"
    )
    parser.add_argument("--keep", action="store_true", help="keep the folders of the table's runs, and say where")
    parser.add_argument(
        "--minutes", type=float, default=2.0, metavar="N", help="length of a long run (default %(default)s)"
    )


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if options.list:
        rows = [case.row() for case in fault_table.chosen(options.only)]
        figures = {"faults.listed": Figure.single(len(rows), unit="cases")}
        return Record.of("faults.list", figures, details={"rows": rows}, command=command)
    if not options.launcher.is_file():
        raise UsageError(f"--launcher {options.launcher}: no such file; run it in the checkout")
    if not options.minutes > 0:
        raise UsageError(f"--minutes {options.minutes}: give more than 0")
    if options.endurance:
        return endurance.run(options, observer, command)
    if options.overhead:
        return overhead.run(options, observer, command)
    return fault_table.run(options, observer, command)


def _notes(record: Record) -> list[str]:
    """The rows, then every breach of a promise."""
    rows = record.details.get("rows") or ()
    lines = text(table(rows), encoding=None).splitlines() if rows else []
    for case in record.details.get("cases") or ():
        lines += [f"not kept: {case['case']}: {breach}" for breach in case["breaches"]]
    if record.details.get("runs"):
        lines.append(f"runs: {record.details['runs']}")
    return lines


def _is_kept(record: Record) -> bool:
    return not any(case["breaches"] for case in record.details.get("cases") or ())


SUITE = Suite(
    name="faults",
    does="what a job does when something is done to it: ended, how soon, which codes and cause, what was lost",
    options=_options,
    run=_run,
    notes=_notes,
    is_kept=_is_kept,
)
