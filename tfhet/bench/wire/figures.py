"""Figures and rows of `tfhet bench transport`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tfhet.bench.wire.lane import CLIENTS, WORKERS, Turn
from tfhet.bench.wire.load import Load
from tfhet.planes.tf_service import CLIENT, PLAIN, PREFIX, RATE, RATIO, WORKER
from tfhet.record import Figure

BASE = "the CPU uncompressed, default allocator, one worker, one rank"


def figures_of(
    loads: Sequence[Load], turns: Mapping[str, Sequence[Turn]], ratios: Mapping[str, float]
) -> dict[str, Figure]:
    """The figures of loads. `turns` and `ratios` (bytes on the wire over bytes of tensors) are by a load's key."""
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
    """CPU of both sides and rate of one way."""
    return {
        f"{PREFIX}.{key}.{CLIENT}": Figure.of([turn.per_gb(CLIENTS) for turn in taken], unit="s/GB"),
        f"{PREFIX}.{key}.{WORKER}": Figure.of([turn.per_gb(WORKERS) for turn in taken], unit="s/GB"),
        f"{PREFIX}.{key}.{RATE}": Figure.of([turn.gb_per_s for turn in taken], unit="GB/s"),
    }


def rows_of(loads: Sequence[Load]) -> list[dict[str, Any]]:
    """What the figures of each load are about, field by field, for `tfhet plan`."""
    return [asdict(load) for load in loads]


def times(taken: Sequence[Turn], reference: Sequence[Turn], against: str) -> Figure:
    """How many times as much CPU, all sides together, per GB."""
    return Figure.ratio([turn.all_per_gb for turn in taken], [turn.all_per_gb for turn in reference], against=against)
