"""Options, turns and figures of `benchmarks.transport`: CPU time for moving batches over tf.data service.

The batches are in the worker's memory, so only moving them is measured. All ways to move batches of one size take
turns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import psutil

from tfhet.arguments import check_positive
from tfhet.bench.wire.lane import CLIENTS, WORKERS, Turn, rounds
from tfhet.bench.wire.load import (
    CLIENT,
    COMPRESSIONS,
    DTYPES,
    PLAIN,
    PREFIX,
    RATE,
    RATIO,
    SELECTION,
    WORKER,
    Load,
    combined,
)
from tfhet.bench.wire.ways import Ways
from tfhet.errors import UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record

SECONDS = 0.5
USUAL = {"dtypes": ("uint8",), "sizes": ("19MB",), "compressions": (PLAIN,), "workers": (1,), "ranks": (1,)}
"""Values of these options where only others of them are given."""
BASE = "the CPU uncompressed, default allocator, one worker, one rank"
LOOPBACK = (
    "all processes ran on this machine: CPU seconds are those of its loopback, a network card has other ones, and GB/s"
    " are those of CPUs that both sides share"
)


def options_of_loads(parser: argparse.ArgumentParser) -> None:
    known = parser.add_argument_group("what is moved", "all combinations of what is given; else a selection")
    known.add_argument("--dtypes", type=words, metavar="NAMES", help=f"of {','.join(DTYPES)} (uint8)")
    known.add_argument("--sizes", type=words, metavar="SIZES", help="bytes of a batch: 150kB,19MB (19MB)")
    known.add_argument("--compressions", type=words, metavar="NAMES", help=f"of {','.join(COMPRESSIONS)} (none)")
    known.add_argument("--workers", type=_numbers, metavar="NUMBERS", help="such as 1,2,4 (1)")
    known.add_argument("--ranks", type=_numbers, metavar="NUMBERS", help="readers that share one job (1)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="X", help="approximate length of a turn (%(default)s)"
    )


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
    """Returns the loads that the options ask for. Raises UsageError."""
    check_positive(options, "seconds")
    given = {flag: getattr(options, flag) for flag in usual}
    for flag, value in given.items():
        if value == ():
            raise UsageError(f"--{flag}: give at least one")
    if any(given.values()):
        return combined(**{flag: given[flag] or value for flag, value in usual.items()})
    return tuple(selection)


def turns_of(
    loads: Sequence[Load], options: argparse.Namespace, observer: Observer, ways: Callable[[], Ways] = Ways
) -> tuple[dict[str, list[Turn]], dict[str, float]]:
    """Measures size after size. Returns turns, and bytes on the wire over bytes of tensors, by key."""

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


def figures_of(
    loads: Sequence[Load], turns: Mapping[str, Sequence[Turn]], ratios: Mapping[str, float]
) -> dict[str, Figure]:
    """Returns the figures of loads. `turns` and `ratios` (bytes on the wire over bytes of tensors) are by key."""
    figures: dict[str, Figure] = {}
    for load in loads:
        figures |= costs_of(load.key, turns[load.key])
    for load in loads:
        if load.compression != PLAIN:
            name = f"{PREFIX}.{load.key}.{RATIO}"
            figures[name] = Figure.single(ratios[load.key], unit="x", against="bytes of the tensors")
    for load in loads:
        if load != load.plain and load.plain.key in turns:
            figures[f"{PREFIX}.vs_plain.{load.key}"] = times(turns[load.key], turns[load.plain.key], BASE)
    return figures


def costs_of(key: str, taken: Sequence[Turn]) -> dict[str, Figure]:
    """Returns the CPU of both sides and the rate of one way."""
    return {
        f"{PREFIX}.{key}.{CLIENT}": Figure.of([turn.per_gb(CLIENTS) for turn in taken], unit="s/GB"),
        f"{PREFIX}.{key}.{WORKER}": Figure.of([turn.per_gb(WORKERS) for turn in taken], unit="s/GB"),
        f"{PREFIX}.{key}.{RATE}": Figure.of([turn.gb_per_s for turn in taken], unit="GB/s"),
    }


def times(taken: Sequence[Turn], reference: Sequence[Turn], against: str) -> Figure:
    """Returns how many times as much CPU per GB was taken, all sides together."""
    return Figure.ratio([turn.all_per_gb for turn in taken], [turn.all_per_gb for turn in reference], against=against)


def details_of(loads: Sequence[Load], turns: Mapping[str, Sequence[Turn]], seconds: float) -> dict[str, Any]:
    return {
        "network": "loopback",
        "seconds": seconds,
        "moved": [asdict(load) for load in loads],
        "order": "rounds over all that moves batches of one size; the i-th turns of two of them are a pair",
        "turns": {key: [asdict(turn) for turn in taken] for key, taken in turns.items()},
    }


def machine_now() -> dict[str, Any]:
    return {"machine_busy_pct": psutil.cpu_percent(interval=1.0), "load_average": os.getloadavg()}


def notes(record: Record) -> list[str]:
    busy = float(record.details.get("machine_busy_pct", 0.0))
    found = [f"the machine was {busy:.0f} % busy before: measure when it has nothing else to do"] if busy > 10.0 else []
    return [*found, LOOPBACK]
