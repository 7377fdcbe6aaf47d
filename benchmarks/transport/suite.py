"""CPU time for moving batches between two processes: tf.data service, the feed, and a TCP connection as the floor."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks import child_environment, chosen
from benchmarks.transport.ends import WAYS
from tfhet.arguments import check_positive
from tfhet.bench import Suite
from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.wire.lane import CLIENTS, WORKERS, Lane, Turn, rounds
from tfhet.bench.wire.load import SIZES, Load
from tfhet.bench.wire.ways import quiet
from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError
from tfhet.events import Event, Observer
from tfhet.planes import with_malloc_tunables
from tfhet.record import Figure, Record
from tfhet.report import number, table, text

FLOOR = "raw_socket"
OPEN_LIMIT_S, GRACE_S = 180.0, 10.0
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
    sizes = {word.strip(): Load("uint8", word.strip()).bytes for word in options.sizes.split(",")}
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
    sender, receiver = (_end(stack, way, side) for side in ("send", "receive"))
    try:
        facts = sender.ask({"open": {"size": size_bytes}})
        found = receiver.ask({"open": {"size": size_bytes, **facts}})
    except TfhetError as error:
        missing[f"{way}.{size}"] = str(error)
        observer(Event("case.missing", SYSTEM.wall(), {"case": f"{way}.{size}", "reason": str(error)}))
        return None
    sides = {CLIENTS: [receiver.pid], WORKERS: [sender.pid]}
    return Lane(f"{way}.{size}", size_bytes, [receiver], sides, ahead=int(found.get("ahead", 0)))


def _end(stack: contextlib.ExitStack, way: str, side: str) -> AnsweringProcess:
    command = [sys.executable, "-m", "benchmarks.transport.ends", way, side]
    env = with_malloc_tunables(quiet(child_environment()))  # the allocator of a job's processes
    process = AnsweringProcess(f"{way} {side}", command, env, OPEN_LIMIT_S)
    stack.callback(process.close, GRACE_S)
    return process


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
    missing = [f"missing: {name}: {why}" for name, why in (record.details.get("missing") or {}).items()]
    return [text(table(list(rows.values()))), *missing, LOOPBACK]


SUITE = Suite(
    name="transport",
    does="CPU per GB, and GB/s, of moving batches over tf.data service and the feed, against a TCP connection",
    options=_options,
    run=_run,
    notes=_notes,
)
