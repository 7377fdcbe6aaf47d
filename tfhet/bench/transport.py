"""`tfhet bench transport`: what moving batches over tf.data service costs the side that reads, and the workers.

Batches lie in a worker's memory, so that nothing but moving them is measured. What moves batches of one size takes
turns: tf.data service as jobs have it, in all the ways asked for, and a TCP connection and gRPC with as many bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.peers.place import Place
from benchmarks.stages.peer_cases import INSTALL
from benchmarks.transport import allocator
from tfhet.bench.suite import Suite
from tfhet.bench.wire import load, ways
from tfhet.bench.wire.figures import figures_of
from tfhet.bench.wire.lane import Turn, rounds
from tfhet.bench.wire.load import TCMALLOC, Load
from tfhet.bench.wire.ways import Rival, Ways
from tfhet.clock import SYSTEM
from tfhet.cluster import environment
from tfhet.errors import UsageError
from tfhet.events import Event, Observer
from tfhet.record import Figure, Record, versions
from tfhet.record.wire_cost import CLIENT, DEFAULT, PLAIN, PREFIX, bytes_of

SECONDS = 0.5
USUAL: Mapping[str, Any] = {
    "dtypes": ("uint8",),
    "sizes": ("19MB",),
    "compressions": (PLAIN,),
    "allocators": (DEFAULT,),
    "workers": (1,),
    "ranks": (1,),
}
"""By option: what is moved where another of these is given, and this one is not."""
LOOPBACK = (
    "all processes ran on this machine: CPU seconds are those of its loopback, a network card has other ones, and GB/s"
    " are those of CPUs that both sides share"
)


def _options(parser: argparse.ArgumentParser) -> None:
    known = parser.add_argument_group("what is moved", "all combinations of what is given; else a selection")
    known.add_argument("--dtypes", type=_words, metavar="NAMES", help=f"of {','.join(load.DTYPES)} (uint8)")
    known.add_argument("--sizes", type=_words, metavar="SIZES", help="bytes of a batch: 150kB,19MB (19MB)")
    known.add_argument("--compressions", type=_words, metavar="NAMES", help=f"of {','.join(load.COMPRESSIONS)} (none)")
    known.add_argument("--allocators", type=_words, metavar="NAMES", help=f"of {','.join(load.ALLOCATORS)} (default)")
    known.add_argument("--workers", type=_numbers, metavar="NUMBERS", help="such as 1,2,4 (1)")
    known.add_argument("--ranks", type=_numbers, metavar="NUMBERS", help="readers that share one job (1)")
    parser.add_argument("--only", type=_words, metavar="WORDS", help="of these, those named so: 19MB,float32.snappy")
    parser.add_argument(
        "--peers",
        default="",
        metavar="NAMES",
        help="of raw_socket,raw_grpc,torch,ray; none; or install: what is missing too (default: all there are)",
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="X", help="of a turn, about (default %(default)s)"
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in _words(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give whole numbers, such as 1,2,4") from None


def loads_of(options: argparse.Namespace) -> tuple[Load, ...]:
    """What the options ask for. Raises UsageError."""
    given = {flag: getattr(options, flag) for flag in USUAL}
    for flag, value in given.items():
        if value == ():
            raise UsageError(f"--{flag}: give at least one")
    loads = load.SELECTION
    if any(given.values()):
        loads = load.combined(**{flag: given[flag] or usual for flag, usual in USUAL.items()})
    return load.only(loads, options.only) if options.only else loads


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if not options.seconds > 0:
        raise UsageError(f"--seconds {options.seconds:g}: give more than 0")
    library = allocator.tcmalloc(environment())
    wanted = loads_of(options)
    loads = tuple(one for one in wanted if one.allocator != TCMALLOC or library is not None)
    missing = {} if len(loads) == len(wanted) else {"allocator tcmalloc": "libtcmalloc is not installed"}
    if not loads:
        raise UsageError("libtcmalloc is not installed, and nothing is asked for without it")
    others = []
    for rival in ways.rivals(options.peers):
        why = rival.missing()
        if why is not None and rival.requires and options.peers == INSTALL:
            Place.of(rival).install()
            why = rival.missing()
        if why is None:
            others.append(rival)
        else:
            missing[f"peer {rival.name}"] = why
    for name, why in missing.items():
        observer(Event("peer.missing", SYSTEM.wall(), {"peer": name.split()[-1], "reason": why}))
    busy_pct = psutil.cpu_percent(interval=1.0)
    ratios, turns = asyncio.run(_measured(loads, others, library, options, observer))
    details = {
        "network": "loopback",
        "seconds": options.seconds,
        "machine_busy_pct": busy_pct,
        "load_average": os.getloadavg(),
        "library": None if library is None else library.name,
        "missing": missing,
        "peers": {**versions(("grpcio", "torch")), **{one.name: one.requires for one in others if one.requires}},
        "order": "rounds over all that moves batches of one size; the i-th turns of two of them are a pair",
        "turns": {key: [turn.to_json() for turn in taken] for key, taken in turns.items()},
    }
    return Record.of(
        PREFIX, figures_of(loads, [rival.name for rival in others], turns, ratios), details=details, command=command
    )


async def _measured(
    loads: Sequence[Load],
    others: Sequence[Rival],
    library: Path | None,
    options: argparse.Namespace,
    observer: Observer,
) -> tuple[dict[str, float], dict[str, list[Turn]]]:
    """Bytes on the wire over bytes of tensors, and turns, by key: size after size."""
    ratios: dict[str, float] = {}
    turns: dict[str, list[Turn]] = {}
    sizes = sorted({one.size for one in loads}, key=bytes_of)
    for size in sizes:
        async with Ways(library) as open_ways:
            lanes = await open_ways.open([one for one in loads if one.size == size], others, size)
            turns |= await asyncio.to_thread(rounds, lanes, options.seconds, options.warmup, options.repeats, observer)
            ratios |= {lane.key: lane.wire_ratio for lane in lanes}
    return ratios, turns


def _notes(record: Record) -> list[str]:
    """What was not measured, and what the numbers are not."""
    missing = record.details.get("missing", {})
    notes = [f"missing: {name}: {why}" for name, why in missing.items()]
    if any(one.requires and f"peer {one.name}" in missing for one in ways.RIVALS):
        notes.append("tfhet bench transport --peers install installs what lies in a folder of its own")
    busy = float(record.details.get("machine_busy_pct", 0.0))
    if busy > 10.0:
        notes.append(f"the machine was {busy:.0f} % busy before: measure when it has nothing else to do")
    return [*notes, LOOPBACK]


def _bars(record: Record) -> tuple[str, Mapping[str, Figure]]:
    found = {name: figure for name, figure in record.figures.items() if name.endswith(f".{CLIENT}")}
    words = {name.removeprefix(f"{PREFIX}.").removesuffix(f".{CLIENT}").replace(".", " "): name for name in found}
    return "transport: CPU seconds of the reading side per GB", {text: found[name] for text, name in words.items()}


SUITE = Suite(
    name=PREFIX,
    does="CPU per GB, and GB/s, of moving batches from workers to ranks, against a socket and gRPC",
    options=_options,
    run=_run,
    bars=_bars,
    notes=_notes,
)
