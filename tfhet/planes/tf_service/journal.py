"""The journal with which a renewed dispatcher begins: it gives no number that an earlier dispatcher gave.

A worker keeps the numbers of tasks that it has finished or dropped. A dispatcher without memory would give them again:
the worker then calls a task finished before it begins, its examples are lost, and its reader waits for ever (TF 2.15.1
and 2.21). The records are those of tensorflow/core/data/service/journal.proto, and numbers continue after the highest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tfhet.source import write_record

NUMBERS, DISPATCHERS = 10_000_000, 200
"""How many numbers of each kind a dispatcher may give, and how many dispatchers have numbers of their own. Workers
report finished tasks in 32 bits."""
_JOB, _ITERATION, _CLIENT, _RELEASED, _TASK, _FINISHED = 14, 2, 6, 7, 3, 4
"""Fields of `Update`: CreateJob, CreateIteration, AcquireIterationClient, ReleaseIterationClient, CreateTask and
FinishTask."""


def begin(work_dir: Path, generation: int) -> None:
    """Makes the folder `work_dir` of the `generation`-th dispatcher, the first one being 1."""
    work_dir.mkdir()
    if generation == 1:
        return
    folder, number = work_dir / "tf_data_dispatcher_journal", (generation - 1) % DISPATCHERS * NUMBERS
    folder.mkdir()
    updates: list[tuple[int, Mapping[int, int | str]]] = [
        (_JOB, {1: number, 2: f"tfhet.generation-{generation}"}),
        (_ITERATION, {1: number, 2: number}),
        (_CLIENT, {1: number, 2: number}),
        (_RELEASED, {1: number}),
        (_TASK, {1: number, 2: number}),
        (_FINISHED, {1: number}),
    ]
    with open(folder / "journal_0", "wb") as stream:
        for field, message in updates:
            write_record(stream, _encoded({field: _encoded(message)}))


def _encoded(message: Mapping[int, int | str | bytes]) -> bytes:
    """Returns a message in the wire format of protocol buffers, from the numbers of its fields."""
    found = bytearray()
    for field, value in message.items():
        if isinstance(value, int):
            found += _varint(field << 3) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            found += _varint(field << 3 | 2) + _varint(len(data)) + data
    return bytes(found)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
