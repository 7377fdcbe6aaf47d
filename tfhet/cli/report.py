"""`tfhet report`, `tfhet compare`, `tfhet timeline`, `tfhet top` and `tfhet runs`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from tfhet.cli.parser import add_examples, add_output, number, write_output
from tfhet.errors import UsageError
from tfhet.record import RUNS, RunFolder, latest_in, runs_in, write_text

_LATEST = "; a folder of runs stands for its latest one (default: runs)"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    report = commands.add_parser("report", help="the HTML page of runs and records, and a table of them")
    add_examples(report, "tfhet report", "tfhet report runs/a runs/b --html page.html")
    words = f"folder of a run, summary, or bench record{_LATEST}"
    report.add_argument("paths", nargs="*", type=Path, default=[RUNS], metavar="PATH", help=words)
    report.add_argument("--profile", type=Path, metavar="FILE", help="what `tfhet profile --json` wrote: stage costs")
    report.add_argument("--plan", type=Path, metavar="FILE", help="what `tfhet plan --json` wrote: its frontier")
    report.add_argument("--region", default="us-east-1", help="whose prices the table takes (default %(default)s)")
    report.add_argument("--html", type=Path, metavar="FILE", help="write one page of all paths (report.html)")
    add_output(report, "the summaries")
    report.set_defaults(run=run_report)

    compare = commands.add_parser("compare", help="two or more runs: what changed in speed, waiting, settings")
    add_examples(compare, "tfhet compare", "tfhet compare runs/a runs/b --json - | jq '.changes[0].words'")
    words = "folder or summary of a run, the first one to compare with (default: the last two runs of runs)"
    compare.add_argument("paths", nargs="*", type=Path, metavar="RUN", help=words)
    compare.add_argument("--region", default="us-east-1", help="whose list prices are used (default %(default)s)")
    add_output(compare, "the comparison")
    compare.set_defaults(run=run_compare)

    timeline = commands.add_parser("timeline", help="where the time of a run went: by rank, process and host")
    add_examples(timeline, "tfhet timeline", "tfhet timeline runs/a --chrome trace.json")
    timeline.add_argument("--chrome", type=Path, metavar="FILE", help="write a trace that Perfetto opens")
    timeline.add_argument("--tensorboard", type=Path, metavar="DIR", help="write scalars for TensorBoard")
    add_output(timeline, "the tables")
    timeline.set_defaults(run=run_timeline)

    top = commands.add_parser("top", help="a running job: steps, hosts, restarts, faults")
    add_examples(top, "tfhet top", "tfhet top runs/a --once")
    top.add_argument("--once", action="store_true", help="one picture, and end")
    again = "look again after this time (default %(default)g)"
    top.add_argument("--every_s", type=number(float, above=0), default=1.0, metavar="S", help=again)
    top.set_defaults(run=run_top)
    for command in (timeline, top):
        words = f"its folder{_LATEST}"
        command.add_argument("run_dir", nargs="?", type=Path, default=RUNS, metavar="RUN_DIR", help=words)

    runs = commands.add_parser("runs", help="the runs of a folder, the latest first: status, step time, waiting")
    add_examples(runs, "tfhet runs", "tfhet runs --json - | jq '.[0].run'")
    runs.add_argument("folder", nargs="?", type=Path, default=RUNS, metavar="DIR", help="default: %(default)s")
    add_output(runs, "the list", has_tables=False)
    runs.set_defaults(run=run_runs)


def run_report(args: argparse.Namespace) -> int:
    """Writes a page into the folder of each run and, for several runs or --html, one page of all; prints tables."""
    from tfhet import report
    from tfhet.report import prices_in

    args.paths = [_latest(path) for path in args.paths]
    beside = RunFolder(args.paths[0])
    if len(args.paths) == 1:  # its folder may have a profile and a plan
        args.profile = args.profile or (beside.profile_path if beside.profile_path.is_file() else None)
        args.plan = args.plan or (beside.plan_path if beside.plan_path.is_file() else None)
    given = report.read_given(args.paths, profile=args.profile, plan=args.plan)
    given = replace(given, price_of=prices_in(args.region, [view.run for view in given.runs]))
    folders = [view.folder for view in given.runs if view.folder]
    for folder in folders:
        print(report.write_html(folder, given))
    if args.html or len(folders) != 1 or len(args.paths) != 1:
        print(write_text(args.html or Path("report.html"), report.page(given)))
    if len(given.runs) == 1:
        (view,) = given.runs
        report.show(report.run_table(view.run, view.folder.path if view.folder else None), wide=args.wide)
    elif given.runs:
        report.show(report.compare({view.name: view for view in given.runs}), wide=args.wide)
    for record in given.records:
        report.show(report.figure_table(record.figures, title=record.name), wide=args.wide)
    for view in given.runs:
        report.show_next(view.run, view.folder)
    write_output(args, [*(view.run for view in given.runs), *given.records])
    return 0


def run_compare(args: argparse.Namespace) -> int:
    """Prints what changed from the first run to the others, and a table. Raises UsageError for fewer than two runs."""
    from tfhet import report
    from tfhet.report import prices_in

    given = report.read_given(_compared(args.paths))
    if given.records:
        raise UsageError(f"{given.records[0].name} is a benchmark record: name folders of runs (`tfhet runs`)")
    found = report.Comparison.of(given.runs, prices_in(args.region, [view.run for view in given.runs]))
    for sentence in found.words:
        print(report.harmless(sentence))
    print()
    report.show(found.table(), wide=args.wide)
    write_output(args, found)
    return 0


def _compared(paths: list[Path]) -> list[Path]:
    """Returns the runs to compare: the named ones, or the last two that left a summary, the earlier one first."""
    if len(paths) > 1:
        return paths
    parent = paths[0] if paths else RUNS
    ended = [run.path for run in runs_in(parent) if run.summary_path.is_file()]
    if len(ended) < 2:
        reason = f"{parent} is a run" if RunFolder(parent).summary_path.is_file() else f"{len(ended)} runs in {parent}"
        raise UsageError(
            f"compare needs two runs ({reason} with a summary): name two, like tfhet compare runs/a runs/b"
        )
    print(f"the last two runs in {parent}: {ended[1]}, {ended[0]}", file=sys.stderr)
    return [ended[1], ended[0]]


def run_timeline(args: argparse.Namespace) -> int:
    """Prints where the time went. Raises UsageError for a run without times."""
    from tfhet import report
    from tfhet.telemetry import timeline_json, timeline_tables, write_chrome_trace, write_scalars

    folder = RunFolder(_latest(args.run_dir))
    found = folder.timeline()
    if found.is_empty:
        raise UsageError(f"{folder.path} holds no times of hosts or steps: run the job with --timeline hosts or steps")
    for title, columns, rows in timeline_tables(found):
        report.show(report.table(rows, columns=columns, title=title, extras=3), wide=args.wide)
    if args.chrome:
        print(write_chrome_trace(found, folder.events(), args.chrome))
    if args.tensorboard:
        print("\n".join(map(str, write_scalars(found, args.tensorboard))))
    write_output(args, timeline_json(found))
    return 0


def run_top(args: argparse.Namespace) -> int:
    from tfhet.report import top

    return top(RunFolder(_latest(args.run_dir)), sys.stdout, once=args.once, every_s=args.every_s)


def run_runs(args: argparse.Namespace) -> int:
    from tfhet import report
    from tfhet.report import COLUMNS, run_list, run_rows

    found = run_list(args.folder)
    report.show(report.table(run_rows(found), columns=COLUMNS))
    write_output(args, found)
    return 0


def _latest(path: Path) -> Path:
    """Returns the run of a path; prints the latest one of a folder of runs."""
    found = latest_in(path)
    if found != path:
        print(f"the latest run in {path}: {found}", file=sys.stderr)
    return found
