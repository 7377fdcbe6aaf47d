"""`tfhet bench transport` with other allocators, and beside other ways to move as many bytes: a TCP connection, gRPC,
PyTorch's DataLoader, Ray Data."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.charts.plot import drawn_bars
from benchmarks.peers.place import INSTALL, Place
from benchmarks.transport import allocator, ways
from benchmarks.transport.allocator import ALLOCATORS, SMALL_PAGES, TCMALLOC
from benchmarks.transport.ways import FEED, RAW_SOCKET, SERVICE, SERVICE_OPEN, PeerWays, Rival
from tfhet.bench import Suite, transport
from tfhet.bench.transport import costs_of, figures_of, times
from tfhet.bench.wire.lane import Turn
from tfhet.bench.wire.load import CLIENT, DEFAULT, DTYPES, PREFIX, SELECTION as PLAIN_SELECTION, SIZES, Load
from tfhet.clock import SYSTEM
from tfhet.cluster import environment
from tfhet.errors import UsageError, unknown
from tfhet.events import Event, Observer
from tfhet.record import Figure, Record, versions

USUAL: Mapping[str, Any] = {**transport.USUAL, "allocators": (DEFAULT,)}
SELECTION = (
    *PLAIN_SELECTION,
    *(Load(dtype, size, allocator=one) for one in (SMALL_PAGES, TCMALLOC) for size in SIZES[2:] for dtype in DTYPES),
)
AGAINST = {RAW_SOCKET: "the CPU of a TCP connection", SERVICE_OPEN: "the CPU of open tf.data service over gRPC"}
"""The rivals whose cost each way of tfhet is compared with, and the words for that cost."""


def _options(parser: argparse.ArgumentParser) -> None:
    transport.options_of_loads(parser)
    words = transport.words
    parser.add_argument("--allocators", type=words, metavar="NAMES", help=f"of {','.join(ALLOCATORS)} (default)")
    parser.add_argument("--only", type=words, metavar="WORDS", help="of these, those named so: 19MB,float32.snappy")
    names = ",".join(rival.name for rival in ways.RIVALS)
    parser.add_argument(
        "--peers",
        default="",
        metavar="NAMES",
        help=f"of {names}; none; or install: what is missing too (default: all there are)",
    )


def loads_of(options: argparse.Namespace) -> tuple[Load, ...]:
    """The loads that the options ask for. Raises UsageError."""
    for name in options.allocators or ():
        if name not in ALLOCATORS:
            unknown("allocator", name, ALLOCATORS)
    loads = transport.loads_of(options, USUAL, SELECTION)
    return only(loads, options.only) if options.only else loads


def only(loads: Sequence[Load], words: Sequence[str]) -> tuple[Load, ...]:
    """Those whose key has all parts of one of the words (`19MB`, `uint8.snappy`). Raises UsageError when none has."""
    found = tuple(load for load in loads if any(set(word.split(".")) <= set(load.key.split(".")) for word in words))
    if not found:
        raise UsageError(f"--only {','.join(words)}: nothing left of {', '.join(load.key for load in loads)}")
    return found


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
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
        observer(Event("case.missing", SYSTEM.wall(), {"case": name, "reason": why}))
    machine = transport.machine_now()
    turns, ratios = transport.turns_of(loads, options, observer, functools.partial(PeerWays, others, library))
    figures = {**figures_of(loads, turns, ratios), **figures_of_rivals(loads, others, turns)}
    details = {
        **machine,
        **transport.details_of(loads, turns, options.seconds),
        "library": None if library is None else library.name,
        "missing": missing,
        "peers": {**versions(("grpcio", "torch")), **{one.name: one.requires for one in others if one.requires}},
    }
    return Record.of(PREFIX, figures, details=details, command=command)


def figures_of_rivals(
    loads: Sequence[Load], others: Sequence[Rival], turns: Mapping[str, Sequence[Turn]]
) -> dict[str, Figure]:
    """The figures of rivals, by `NAME.SIZE`, and of each way of tfhet's against those of AGAINST."""
    figures: dict[str, Figure] = {}
    for rival in others:
        for size in dict.fromkeys(load.size for load in loads):
            for shape in ways.shapes(rival, [load for load in loads if load.size == size]):
                key = f"{rival.name}.{size}{ways.suffix(*shape)}"
                figures |= costs_of(key, turns[key])
    of_tfhet = [rival.name for rival in others if rival.name.startswith((SERVICE, FEED))]
    for name, words in AGAINST.items():
        for load in loads if name in [rival.name for rival in others] else ():
            for key in (load.key, *(f"{one}.{load.size}" for one in of_tfhet if one != name)):
                if key in turns:  # a rival may have been measured with several senders only
                    ratio = times(turns[key], turns[f"{name}.{load.size}"], words)
                    figures[f"{PREFIX}.vs_{name}.{key}"] = ratio
    return figures


def _notes(record: Record) -> list[str]:
    missing = record.details.get("missing", {})
    notes = [f"missing: {name}: {why}" for name, why in missing.items()]
    if any(one.requires and f"peer {one.name}" in missing for one in ways.RIVALS):
        notes.append("--peers install installs what lies in a folder of its own")
    return [*notes, *transport.notes(record)]


def bars(record: Record) -> tuple[str, dict[str, Figure]]:
    """The title and the bars of the picture: the CPU of the reading side."""
    found = {name: figure for name, figure in record.figures.items() if name.endswith(f".{CLIENT}")}
    words = {name.removeprefix(f"{PREFIX}.").removesuffix(f".{CLIENT}").replace(".", " "): name for name in found}
    return "transport: CPU seconds of the reading side per GB", {text: found[name] for text, name in words.items()}


SUITE = drawn_bars(
    Suite(
        name=PREFIX,
        does="tf.data service's CPU per GB, and GB/s, against a socket, gRPC and other loaders, by allocator",
        options=_options,
        run=_run,
        notes=_notes,
    ),
    bars,
)
