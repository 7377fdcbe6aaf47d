"""The command `tfhet profile`: measures what an input pipeline costs, and advises."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tfhet.cli.parser import add_examples, add_output, number
from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.extras import needed

if TYPE_CHECKING:
    from tfhet.profile import Profile


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    profile = commands.add_parser("profile", help="measure the CPU of an input pipeline, part by part, and advise")
    profile.usage = "%(prog)s [options] TARGET\n       %(prog)s [options] --script FILE [-- ARGUMENTS]"
    add_examples(profile, "tfhet profile photos/train", "tfhet profile --script train.py -- --epochs 1")
    add = profile.add_argument
    words = "a directory of TFRecords, an image folder, `synthetic`, or FILE.py:NAME of a Pipeline, tf.data.Dataset or"
    words += " Ray data set"
    add("target", nargs="?", metavar="TARGET", help=words)
    words = "or a training script, whose arguments come after --: the first training data that it passes to"
    words += " tfhet.distribute, tfhet.batches or tfhet.torch.loader"
    add("--script", type=Path, metavar="FILE", help=words)
    add("--stages", metavar="TEXT", help="stages, or the name of a chain")
    default, whole, above_0 = "(default %(default)s)", number(int, 1), number(float, above=0)
    add("--batch_size", type=whole, default=128, metavar="N", help=f"for a source {default}")
    add("--budget_s", type=above_0, default=30.0, metavar="S", help=f"CPU seconds {default}")
    words = f"seconds in which the script has to pass its data {default}"
    add("--deadline_s", type=above_0, default=300.0, metavar="S", help=words)
    add("--repeats", type=whole, default=5, metavar="N", help=f"measured rounds {default}")
    add_output(profile, "the record, raw samples included,")
    profile.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measures and prints. Raises UsageError for options that conflict."""
    import asyncio

    from tfhet import planes, profile
    from tfhet.report import progress_of

    if (args.target is None) == (args.script is None) or (args.script and args.stages):
        raise UsageError("what should be profiled? give a TARGET, or --script FILE, which has stages of its own")
    effort = profile.Effort(args.budget_s, args.repeats)
    with progress_of("profile") as step:

        def observe(event: Event) -> None:
            if event.name == "profile.round":
                step(event.fields["done"], event.fields["total"], "rounds")

        script = args.script or (Path(args.target) if profile.makes_ray(args.target) else None)
        if script and args.stages:
            raise UsageError("--stages needs a source or a Pipeline; a Ray data set has operators of its own")
        if script:
            found = asyncio.run(profile.measure_script(script, args.command, effort, args.deadline_s, observe))
        else:
            with needed("the profile of what tf.data runs"), planes.without_noise():
                target = profile.load(args.target, args.stages, args.batch_size)
                if not profile.is_measured_natively(target):
                    importlib.import_module("tensorflow")
            found = profile.measure_target(target, effort, observe)
    show(found, args.wide)
    if args.json:
        found.record(("tfhet", *sys.argv[1:])).write(args.json)
    return 0


def show(found: Profile, wide: bool = False) -> None:
    """Prints the table of a profile's parts, how well they explain the whole, and what would help most."""
    from tfhet import advice, report
    from tfhet.record import median

    rows = [
        [cost.name, found.us(i), f"{found.share(i):.0%}", median(found.alone_us(i)), cost.bytes_per_example]
        for i, cost in enumerate(found.costs)
    ]
    rows.append(["the whole", found.whole_us, "100%", None, None])
    columns = ["part", "CPU us per example", "share", "alone", "bytes after it"]
    report.show(report.table(rows, columns=columns, extras=1), wide=wide)
    residue = found.sum_over_whole()
    print(f"The parts alone sum to {residue.value:.2f} of the whole ({residue.low:.2f} to {residue.high:.2f}).")
    if found.beside_us:
        reader, server = (median(found.beside_us[end]) for end in ("reader", "server"))
        print(f"Ray itself takes per example: {reader:.1f} us in the reading process, {server:.1f} us elsewhere.")
    for finding in advice.of_pipeline(found):
        saves = f"saves up to {finding.saves_us:.1f} us: " if finding.saves_us else ""
        print(f"- {saves}{finding.clause}")
