"""`tfhet bench SUITE`: measures, prints the table of figures, writes the record and the plot."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tfhet.bench import harness, progress, suites
from tfhet.bench.suite import Suite
from tfhet.errors import TfhetError, UsageError
from tfhet.report import check_plot, figure_table, plot_bars, show

PROGRAM = "tfhet bench"


def run(argv: Sequence[str]) -> int:
    """Runs the suite that `argv` (without the word `bench`) names; the exit code: 0 ok, 1 failed, 2 wrong use."""
    try:
        return _run(list(argv))
    except SystemExit as stop:  # argparse's way to end: --help is 0, wrong use 2
        return stop.code if isinstance(stop.code, int) else 2
    except TfhetError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return error.exit_code


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        _overview().print_help(sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    suite = suites.get(argv[0])
    options = _parser(suite).parse_args(argv[1:])
    if options.repeats < 1 or options.warmup < 0:
        raise UsageError(f"--repeats {options.repeats} --warmup {options.warmup}: give at least 1 and 0")
    _check_outputs(options, suite)
    with progress.shown() as observer:
        record = suite.run(options, observer, (*PROGRAM.split(), *argv))
    show(figure_table(record.figures, title=record.name))
    for note in suite.notes(record) if suite.notes else ():
        print(note)
    if options.json:
        print(f"record: {record.write(options.json)}")
    if options.plot and suite.draw:
        print(f"plot: {suite.draw(record, options.plot)}")
    elif options.plot and suite.bars:
        title, bars = suite.bars(record)
        print(f"plot: {plot_bars(bars, options.plot, title=title)}")
    return 0 if suite.is_kept is None or suite.is_kept(record) else 1


def _overview() -> argparse.ArgumentParser:
    known = "\n".join(f"  {name:<12}{suites.get(name).does}" for name in suites.names())
    return argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} SUITE [options]   ({PROGRAM} SUITE --help lists them)",
        description=f"The compute-time harness. Suites:\n{known}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _parser(suite: Suite) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{PROGRAM} {suite.name}", description=suite.does)
    parser.add_argument(
        "--repeats", type=int, default=harness.REPEATS, metavar="N", help="measured rounds (default %(default)s)"
    )
    parser.add_argument(
        "--warmup", type=int, default=harness.WARMUP, metavar="N", help="rounds before them (default %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record, raw samples included")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a plot (.png, .svg or .pdf)")
    suite.options(parser)
    return parser


def _check_outputs(options: argparse.Namespace, suite: Suite) -> None:
    """Finds before minutes of measuring what would lose their result."""
    for flag, path in (("--json", options.json), ("--plot", options.plot)):
        if path is None:
            continue
        if path.is_dir():
            raise UsageError(f"{flag} {path} is a folder: name a file in it")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{flag} {path}: its folder cannot be made ({error.strerror})") from None
        if not os.access(path.parent, os.W_OK):
            raise UsageError(f"{flag} {path}: its folder cannot be written to")
    if options.plot is not None:
        if suite.bars is None and suite.draw is None:
            raise UsageError(f"suite {suite.name} has no plot: leave --plot out")
        check_plot(options.plot)
