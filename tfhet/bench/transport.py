"""`tfhet bench transport`: CPU that the reading side and the workers spend on moving batches over tf.data service.

Batches lie in a worker's memory, so that only moving them is measured. All ways to move batches of one size take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psutil

from tfhet.bench.suite import Suite
from tfhet.bench.wire.figures import figures_of, rows_of
from tfhet.bench.wire.lane import Turn, rounds
from tfhet.bench.wire.load import COMPRESSIONS, DTYPES, SELECTION, Load, combined
from tfhet.bench.wire.ways import Ways
from tfhet.errors import UsageError
from tfhet.events import Observer
from tfhet.planes.tf_service import PLAIN, PREFIX
from tfhet.record import Record

SECONDS = 0.5
USUAL: Mapping[str, Any] = {
    "dtypes": ("uint8",),
    "sizes": ("19MB",),
    "compressions": (PLAIN,),
    "workers": (1,),
    "ranks": (1,),
}
"""By option: its value where another of these is given, and this one is not."""
LOOPBACK = (
    "all processes ran on this machine: CPU seconds are those of its loopback, a network card has other ones, and GB/s"
    " are those of CPUs that both sides share"
)


def options_of_loads(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say what is moved."""
    known = parser.add_argument_group("what is moved", "all combinations of what is given; else a selection")
    known.add_argument("--dtypes", type=words, metavar="NAMES", help=f"of {','.join(DTYPES)} (uint8)")
    known.add_argument("--sizes", type=words, metavar="SIZES", help="bytes of a batch: 150kB,19MB (19MB)")
    known.add_argument("--compressions", type=words, metavar="NAMES", help=f"of {','.join(COMPRESSIONS)} (none)")
    known.add_argument("--workers", type=_numbers, metavar="NUMBERS", help="such as 1,2,4 (1)")
    known.add_argument("--ranks", type=_numbers, metavar="NUMBERS", help="readers that share one job (1)")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="X", help="of a turn, about (%(default)s)")


def words(text: str) -> tuple[str, ...]:
    """`a, b` -> ("a", "b")."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in words(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give whole numbers, such as 1,2,4") from None


def loads_of(
    options: argparse.Namespace, usual: Mapping[str, Any] = USUAL, selection: Sequence[Load] = SELECTION
) -> tuple[Load, ...]:
    """The loads that the options ask for. Raises UsageError."""
    if not options.seconds > 0:
        raise UsageError(f"--seconds {options.seconds:g}: give more than 0")
    given = {flag: getattr(options, flag) for flag in usual}
    for flag, value in given.items():
        if value == ():
            raise UsageError(f"--{flag}: give at least one")
    if any(given.values()):
        return combined(**{flag: given[flag] or value for flag, value in usual.items()})
    return tuple(selection)


def turns_of(
    loads: Sequence[Load],
    options: argparse.Namespace,
    observer: Observer,
    ways: Callable[[], Ways] = Ways,
) -> tuple[dict[str, list[Turn]], dict[str, float]]:
    """Turns, and bytes on the wire over bytes of tensors, by key: size after size."""

    async def measured() -> tuple[dict[str, list[Turn]], dict[str, float]]:
        turns, ratios = dict[str, list[Turn]](), dict[str, float]()
        for size in dict.fromkeys(one.size for one in sorted(loads, key=lambda one: one.bytes)):
            async with ways() as open_ways:
                lanes = await open_ways.open([one for one in loads if one.size == size], size)
                counts = (options.seconds, options.warmup, options.repeats)
                turns |= await asyncio.to_thread(rounds, lanes, *counts, observer)
                ratios |= {lane.key: lane.wire_ratio for lane in lanes}
        return turns, ratios

    return asyncio.run(measured())


def details_of(loads: Sequence[Load], turns: Mapping[str, Sequence[Turn]], seconds: float) -> dict[str, Any]:
    """The record's details."""
    return {
        "network": "loopback",
        "seconds": seconds,
        "moved": rows_of(loads),
        "order": "rounds over all that moves batches of one size; the i-th turns of two of them are a pair",
        "turns": {key: [turn.to_json() for turn in taken] for key, taken in turns.items()},
    }


def machine_now() -> dict[str, Any]:
    """How busy the machine is before anything is measured."""
    return {"machine_busy_pct": psutil.cpu_percent(interval=1.0), "load_average": os.getloadavg()}


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    loads, machine = loads_of(options), machine_now()
    turns, ratios = turns_of(loads, options, observer)
    details = {**machine, **details_of(loads, turns, options.seconds)}
    return Record.of(PREFIX, figures_of(loads, turns, ratios), details=details, command=command)


def notes(record: Record) -> list[str]:
    """What the numbers do not say."""
    busy = float(record.details.get("machine_busy_pct", 0.0))
    told = [f"the machine was {busy:.0f} % busy before: measure when it has nothing else to do"] if busy > 10.0 else []
    return [*told, LOOPBACK]


SUITE = Suite(
    name=PREFIX,
    does="CPU per GB, and GB/s, of moving batches from workers to ranks",
    options=options_of_loads,
    run=_run,
    notes=notes,
)
