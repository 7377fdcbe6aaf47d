"""`tfhet prices`: the prices of instance types, and new ones from AWS."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tfhet.errors import UsageError


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `tfhet prices`."""
    prices = commands.add_parser("prices", help="prices of instance types, with their source and day")
    prices.add_argument(
        "types",
        nargs="*",
        metavar="TYPE",
        help="instance types (default: all with a price); refresh: ask AWS for prices",
    )
    prices.add_argument("--region", default="us-east-1", metavar="R", help="default %(default)s")
    prices.add_argument("--market", choices=("sagemaker training", "ec2"), help="only prices of that market")
    prices.add_argument(
        "--instances", type=Path, metavar="FILE", help="a catalogue file with types and prices of yours"
    )
    prices.add_argument("--file", type=Path, metavar="FILE", help="where refresh writes; default: where it is read")
    prices.add_argument("--json", type=Path, metavar="FILE", help="also write the table to this file")
    prices.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the table of prices, or asks AWS for prices and prints where they are written. The exit code is 0."""
    from tfhet import catalogue, report

    if args.types == ["refresh"]:
        path, found = catalogue.refresh(args.region, args.file)
        print(f"{len(found.usd_per_hour)} prices of training in {found.region}, of {found.date}: {path}")
        return 0
    if args.file is not None:
        raise UsageError("--file says where `tfhet prices refresh` writes: name a catalogue file with --instances FILE")
    known = catalogue.default()
    if args.instances is not None:
        known = known.with_file(args.instances)
    rows = catalogue.listing(known, args.types, args.region, args.market)
    report.show(report.table(catalogue.shown(rows), columns=catalogue.COLUMNS, title=args.region))
    for note in catalogue.notes(known, rows, args.region):
        print(note)
    if args.json:
        args.json.write_text(json.dumps({"region": args.region, "prices": rows}, indent=1), encoding="utf-8")
    return 0
