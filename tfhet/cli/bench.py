"""`tfhet bench SUITE`: measures, prints the table of figures, writes the record."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from tfhet.bench import NAMES, Conditions, Suite, code, harness, suite_named
from tfhet.cli.parser import Parser, add_examples, add_output, json_for_pipe, number
from tfhet.errors import TfhetError
from tfhet.events import Event
from tfhet.report import duration, figure_table, show

PROGRAM = "tfhet bench"


def run(argv: Sequence[str]) -> int:
    """Runs the suite that `argv` names. Returns 0 ok, 1 failed, 2 wrong use. Raises UsageError for an unknown suite."""
    if not argv or argv[0] in ("-h", "--help"):
        known = "\n".join(f"  {name:<12}{suite_named(name).does}" for name in NAMES)
        usage = f"usage: {PROGRAM} SUITE [options]   ({PROGRAM} SUITE --help lists them)"
        print(f"{usage}\n\nSuites:\n{known}", file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    suite = suite_named(argv[0])
    return run_suite(suite, argv[1:], f"{PROGRAM} {suite.name}")


def run_suite(suite: Suite, argv: Sequence[str], program: str) -> int:
    """Runs a suite with the options `argv` and returns the exit code. program: the command, for help and record."""
    try:
        return _run(suite, list(argv), program)
    except SystemExit as stop:  # argparse's way to end: --help is 0, wrong use 2
        return stop.code if isinstance(stop.code, int) else 2
    except TfhetError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_code


def _run(suite: Suite, argv: list[str], program: str) -> int:
    options = parser(suite, program).parse_args(argv)
    with json_for_pipe(options):
        begun = Conditions.now()
        record = suite.run(options, show_progress, (*program.split(), *argv))
        record = replace(record, code=code(), conditions=begun.until(Conditions.now()))
        show(figure_table(record.figures, title=record.name), wide=options.wide)
        for line in suite.lines(record):
            print(line)
        if options.json:
            record.write(options.json)
    return 0 if suite.is_kept(record) else 1


def parser(suite: Suite, program: str) -> argparse.ArgumentParser:
    made = Parser(prog=program, description=suite.does)
    add_examples(made, f"{program} --repeats 3 --json {suite.name}.json")
    counts = (("repeats", 1, harness.REPEATS, "measured rounds"), ("warmup", 0, harness.WARMUP, "rounds before them"))
    for name, least, default, words in counts:
        made.add_argument(
            f"--{name}", type=number(int, least), default=default, metavar="N", help=f"{words} (default %(default)s)"
        )
    add_output(made, "the record, raw samples included,")
    suite.options(made)
    return made


def show_progress(event: Event) -> None:
    """An observer that prints one line on standard error for each run: `[bench] 3/40 kill:worker (12.1 s): kept`."""
    fields, line = event.fields, ""
    if event.name == "case.ended":
        took = "" if fields.get("seconds") is None else f" ({duration(fields['seconds'])})"
        said = "".join(f": {text}" for text in fields.get("said", ()))
        line = f"{fields['round']}/{fields['rounds']} {fields['case']}{took}{said}"
    elif event.name == "case.missing":
        line = f"{fields['case']} is missing: {fields['reason']}"
    if line:
        print(f"[bench] {line}", file=sys.stderr, flush=True)
