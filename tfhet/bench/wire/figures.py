"""Figures of `tfhet bench transport`, made of the turns that were taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfhet.bench.wire.lane import CLIENTS, WORKERS, Turn
from tfhet.bench.wire.load import Load
from tfhet.bench.wire.ways import RAW_SOCKET
from tfhet.record import Figure
from tfhet.record.wire_cost import CLIENT, PLAIN, PREFIX, RATE, RATIO, WORKER

SOCKET = "the CPU of a TCP connection"
BASE = "the CPU uncompressed, default allocator, one worker, one rank"


def figures_of(
    loads: Sequence[Load], others: Sequence[str], turns: Mapping[str, Sequence[Turn]], ratios: Mapping[str, float]
) -> dict[str, Figure]:
    """`turns` and `ratios` (bytes on the wire over bytes of tensors) by key: that of a load, or `OTHER.SIZE`."""
    sizes = dict.fromkeys(load.size for load in loads)
    figures: dict[str, Figure] = {}
    for key in [*(load.key for load in loads), *(f"{name}.{size}" for name in others for size in sizes)]:
        taken = turns[key]
        figures[f"{PREFIX}.{key}.{CLIENT}"] = Figure.of([turn.per_gb(CLIENTS) for turn in taken], unit="s/GB")
        figures[f"{PREFIX}.{key}.{WORKER}"] = Figure.of([turn.per_gb(WORKERS) for turn in taken], unit="s/GB")
        figures[f"{PREFIX}.{key}.{RATE}"] = Figure.of([turn.gb_per_s for turn in taken], unit="GB/s")
    for load in loads:
        if load.compression != PLAIN:
            figures[f"{PREFIX}.{load.key}.{RATIO}"] = Figure.single(
                ratios[load.key], unit="x", against="bytes of the tensors"
            )
    for load in loads:
        if RAW_SOCKET in others:
            pair = turns[load.key], turns[f"{RAW_SOCKET}.{load.size}"]
            figures[f"{PREFIX}.vs_raw_socket.{load.key}"] = _times(*pair, SOCKET)
        if load != load.plain and load.plain.key in turns:
            figures[f"{PREFIX}.vs_plain.{load.key}"] = _times(turns[load.key], turns[load.plain.key], BASE)
    return figures


def _times(taken: Sequence[Turn], reference: Sequence[Turn], against: str) -> Figure:
    """How many times as much CPU, all sides together, per GB."""
    return Figure.ratio([turn.all_per_gb for turn in taken], [turn.all_per_gb for turn in reference], against=against)
