"""CPU time for moving batches between two processes: tf.data service, the feed, and a TCP connection as the floor."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks import child_environment, chosen
from benchmarks.transport.ends import WAYS
from tfhet.arguments import check_positive
from tfhet.bench import Suite
from tfhet.bench.lane import CLIENTS, WORKERS, Lane, Turn, connect, rounds, start_ends
from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError, UsageError
from tfhet.events import Event, Observer
from tfhet.record import Figure, Record
from tfhet.report import number, table, text
from tfhet.units import KB, MB

FLOOR = "raw_socket"
SIZES = ("150kB", "1600kB", "19MB", "77MB")
"""One image of 224x224; batches of 512 of 32x32, and of 128 and 512 of 224x224, as uint8."""
LOOPBACK = (
    "all processes ran on this machine: CPU seconds include its loopback instead of a network card, and GB/s depend on"
    " CPUs that both sides share"
)


def _options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--ways", default=",".join(WAYS), metavar="NAMES", help="ways to move batches (default %(default)s)")
    add("--sizes", default=",".join(SIZES), metavar="SIZES", help="bytes of a batch (default %(default)s)")
    add("--seconds", type=float, default=0.5, metavar="X", help="approximate length of a turn (default %(default)s)")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    check_positive(options, "seconds")
    ways = chosen("--ways", options.ways, {name: name for name in WAYS})
    sizes = {word.strip(): _bytes(word.strip()) for word in options.sizes.split(",")}
    details = {"network": "loopback", "seconds": options.seconds, "load_before": os.getloadavg()[0]}
    turns, missing = dict[str, list[Turn]](), dict[str, str]()
    for size, size_bytes in sizes.items():
        with contextlib.ExitStack() as stack:
            found = [_lane(stack, way, size, size_bytes, missing, observer) for way in ways]
            lanes = [lane for lane in found if lane is not None]
            if lanes:
                turns |= rounds(lanes, options.seconds, options.warmup, options.repeats, observer)
    if not turns:
        raise TfhetError(f"no way could be opened: {missing}")
    samples = {key: [asdict(turn) for turn in taken] for key, taken in turns.items()}
    return Record.of(
        "transport", figures_of(turns), details={**details, "missing": missing, "turns": samples}, command=command
    )


def _lane(
    stack: contextlib.ExitStack, way: str, size: str, size_bytes: int, missing: dict[str, str], observer: Observer
) -> Lane | None:
    """The way with batches of one size; None if it cannot be opened, which is reported and noted in `missing`."""
    try:
        return connect(
            f"{way}.{size}", size_bytes, start_ends(stack, "benchmarks.transport.ends", way, child_environment())
        )
    except TfhetError as error:
        missing[f"{way}.{size}"] = str(error)
        observer(Event("case.missing", SYSTEM.wall(), {"case": f"{way}.{size}", "reason": str(error)}))
        return None


def _bytes(size: str) -> int:
    """150000 for `150kB`. Raises UsageError for anything but whole kB or MB."""
    found = re.fullmatch(r"([1-9][0-9]*)(kB|MB)", size)
    if found is None:
        raise UsageError(f"--sizes {size!r}: give whole numbers of kB or MB, such as 150kB,19MB")
    return int(found[1]) * {"kB": KB, "MB": MB}[found[2]]


def figures_of(turns: Mapping[str, Sequence[Turn]]) -> dict[str, Figure]:
    """Returns the CPU time of both sides and the rate of each `WAY.SIZE`, then the ratios to the TCP connection."""
    figures, ratios = dict[str, Figure](), dict[str, Figure]()
    for key, taken in turns.items():
        way, _, size = key.partition(".")
        figures[f"transport.{key}.client_cpu_s_per_gb"] = Figure.of([t.per_gb(CLIENTS) for t in taken], unit="s/GB")
        figures[f"transport.{key}.worker_cpu_s_per_gb"] = Figure.of([t.per_gb(WORKERS) for t in taken], unit="s/GB")
        figures[f"transport.{key}.gb_per_s"] = Figure.of([t.gb_per_s for t in taken], unit="GB/s")
        floor = turns.get(f"{FLOOR}.{size}")
        if floor and way != FLOOR:
            cost, least = ([turn.all_per_gb for turn in side] for side in (taken, floor))
            ratios[f"transport.vs_{FLOOR}.{key}"] = Figure.ratio(cost, least, against="CPU of a TCP connection")
    return figures | ratios


def _notes(record: Record) -> list[str]:
    """The table of all ways and sizes: reader + sender CPU seconds per GB, and the ratio to the TCP connection."""
    figures, rows = record.figures, dict[str, dict[str, str]]()
    for name in figures:
        _, way, size, what = [*name.split("."), ""][:4]
        if what == "client_cpu_s_per_gb":
            costs = [figures[f"transport.{way}.{size}.{side}_cpu_s_per_gb"].value for side in ("client", "worker")]
            ratio = figures.get(f"transport.vs_{FLOOR}.{way}.{size}")
            cell = " + ".join(map(number, costs)) + (f" ({number(ratio.value)}x)" if ratio else "")
            rows.setdefault(way, {"reader + sender, CPU s/GB": way})[size] = cell
    return [text(table(list(rows.values()))), LOOPBACK]


SUITE = Suite(
    name="transport",
    does="CPU per GB, and GB/s, of moving batches over tf.data service and the feed, against a TCP connection",
    options=_options,
    run=_run,
    notes=_notes,
)
