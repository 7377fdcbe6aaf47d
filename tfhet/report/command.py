"""`tfhet report`, `tfhet timeline` and `tfhet top`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from tfhet.arguments import check_positive
from tfhet.errors import UsageError


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `tfhet report`, `tfhet timeline` and `tfhet top`."""
    report = commands.add_parser("report", help="the HTML page of runs and records, and a table of them")
    report.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="folder of a run, summary, or bench record")
    report.add_argument("--profile", type=Path, metavar="FILE", help="what `tfhet profile --json` wrote: stage costs")
    report.add_argument("--plan", type=Path, metavar="FILE", help="what `tfhet plan --json` wrote: its frontier")
    report.add_argument("--region", default="us-east-1", help="whose prices the table takes (default %(default)s)")
    report.add_argument("--html", type=Path, metavar="FILE", help="the page of all that is given (report.html)")
    report.add_argument("--json", type=Path, metavar="FILE", help="also write the summaries to this file")
    report.set_defaults(run=run_report)

    timeline = commands.add_parser("timeline", help="where the time of a run went: by rank, process and host")
    timeline.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    timeline.add_argument("--chrome", type=Path, metavar="FILE", help="write a trace that Perfetto opens")
    timeline.add_argument("--tensorboard", type=Path, metavar="DIR", help="write scalars for TensorBoard")
    timeline.add_argument("--json", type=Path, metavar="FILE", help="also write the tables to this file")
    timeline.set_defaults(run=run_timeline)

    top = commands.add_parser("top", help="a run as it goes on: steps, hosts, restarts, faults")
    top.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    top.add_argument("--once", action="store_true", help="one picture, and end")
    top.add_argument("--every_s", "--every-s", type=float, default=1.0, metavar="S", help="look again (default 1)")
    top.set_defaults(run=run_top)


def run_report(args: argparse.Namespace) -> int:
    """Writes report.html into the folder of each run, and the page of all that was given; prints the tables.

    The page of all goes to --html; without it, where there is more than one folder of a run to show, to report.html
    here. The exit code is 0. Raises UsageError or DataError for what cannot be read, UsageError for an unknown region.
    """
    from tfhet import report
    from tfhet.record import write_text
    from tfhet.report.cost import prices_in

    given = report.read_given(args.paths, profile=args.profile, plan=args.plan)
    given = replace(given, price_of=prices_in(args.region, [view.run for view in given.runs]))
    folders = [view.folder for view in given.runs if view.folder]
    for folder in folders:
        print(report.write_html(folder, given))
    if args.html or len(folders) != 1 or len(args.paths) != 1:
        print(write_text(args.html or Path("report.html"), report.page(given)))
    if len(given.runs) == 1:
        (view,) = given.runs
        report.show(report.run_table(view.run, view.folder.path if view.folder else None))
    elif given.runs:
        report.show(report.compare({view.name: view.run for view in given.runs}))
    for record in given.records:
        report.show(report.figure_table(record.figures, title=record.name))
    if args.json:
        written = [view.run.to_json() for view in given.runs] + [record.to_json() for record in given.records]
        args.json.write_text(json.dumps(written, indent=1), encoding="utf-8")
    return 0


def run_timeline(args: argparse.Namespace) -> int:
    """The tables of where the time went; the exit code is 0. Raises UsageError for a run without times."""
    from tfhet import report
    from tfhet.record import RunFolder
    from tfhet.telemetry import timeline_json, timeline_tables, write_chrome_trace, write_scalars

    folder = RunFolder(args.run_dir)
    found = folder.timeline()
    if found.is_empty:
        raise UsageError(f"{args.run_dir} holds no times of hosts or steps: run the job with --timeline hosts or steps")
    for title, columns, rows in timeline_tables(found):
        report.show(report.table(rows, columns=columns, title=title))
    if args.chrome:
        print(write_chrome_trace(found, folder.events(), args.chrome))
    if args.tensorboard:
        print("\n".join(map(str, write_scalars(found, args.tensorboard))))
    if args.json:
        args.json.write_text(json.dumps(timeline_json(found), indent=1), encoding="utf-8")
    return 0


def run_top(args: argparse.Namespace) -> int:
    """Shows a run until it ends. Raises UsageError for times that are not above 0, or no folder."""
    from tfhet.record import RunFolder
    from tfhet.report.live import top

    check_positive(args, "every_s")
    return top(RunFolder(args.run_dir), sys.stdout, once=args.once, every_s=args.every_s)
