"""`tfhet prices`: the prices of instance types, and new ones from AWS."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfhet import catalogue
from tfhet.cli.parser import add_examples, add_output, write_output
from tfhet.errors import UsageError

COLUMNS = ("type", "vCPU", "GiB", "GPUs", "Gbit/s", "USD/h", "USD per vCPU-h", "market", "date", "source")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    prices = commands.add_parser("prices", help="prices of instance types, with their source and day")
    add_examples(prices, "tfhet prices ml.g5.xlarge ml.c5.xlarge --wide", "tfhet prices refresh --region eu-west-1")
    what = "instance types (default: all with a price); refresh: ask AWS for prices"
    prices.add_argument("types", nargs="*", metavar="TYPE", help=what)
    prices.add_argument("--region", default="us-east-1", metavar="R", help="default %(default)s")
    prices.add_argument("--market", choices=("sagemaker training", "ec2"), help="only prices of that market")
    prices.add_argument("--instances", type=Path, metavar="FILE", help="a catalogue file of yours")
    prices.add_argument("--file", type=Path, metavar="FILE", help="where refresh writes; default: where it is read")
    add_output(prices, "the table")
    prices.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the table of prices, or asks AWS for prices and prints where they are written. The exit code is 0."""
    from tfhet import report

    if args.types == ["refresh"]:
        path, found = catalogue.refresh(args.region, args.file)
        print(f"{len(found.usd_per_hour)} prices of training in {found.region}, of {found.date}: {path}")
        return 0
    if args.file is not None:
        raise UsageError("--file says where `tfhet prices refresh` writes: name a catalogue file with --instances FILE")
    known = catalogue.default(args.instances)
    rows = _rows(known, args)
    money = [column for column in COLUMNS if column.startswith("USD")]
    shown = [{**row, **{name: f"{row[name]:.4f}" for name in money if row[name] is not None}} for row in rows]
    report.show(report.table(shown, columns=COLUMNS, title=args.region, extras=3), wide=args.wide)
    for note in _notes(known, rows, args.region):
        print(note)
    write_output(args, {"region": args.region, "prices": rows})
    return 0


def _rows(known: catalogue.Catalogue, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns a row for each type that is named, or has a price, by COLUMNS; None stands for what is not known."""
    rows = []
    for name in args.types or known.prices(args.region, args.market):
        kind, price = known.instance(name), known.price(name, args.region, args.market)
        gpus = f"{kind.gpus} {kind.gpu_kind}" if kind.gpus else None
        cost: tuple[Any, ...] = (None,) * 5
        if price is not None:
            usd = price.usd_per_hour
            cost = (usd, usd / kind.vcpus, price.market, price.date.isoformat(), price.source)
        about = (kind.name, kind.vcpus, kind.memory_gib, gpus, kind.network_gbit_per_s)
        rows.append(dict(zip(COLUMNS, (*about, *cost), strict=True)))
    return rows


def _notes(known: catalogue.Catalogue, rows: Sequence[Mapping[str, Any]], region: str) -> Iterator[str]:
    found = [row for row in rows if row["USD/h"] is not None]
    if len(found) < len(rows) or not rows:
        where = ", ".join(known.regions())
        yield f"no price known: ask AWS with `tfhet prices refresh --region {region}`; known here: some of {where}"
    if len({row["market"] for row in found}) > 1:
        yield "prices of two markets cannot be compared: --market ec2, or `tfhet prices refresh`"
