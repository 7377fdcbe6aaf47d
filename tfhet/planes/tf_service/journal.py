"""The journal with which a renewed dispatcher begins: it gives no number that an earlier dispatcher gave.

A worker keeps the numbers of tasks that it has finished or dropped. A dispatcher without memory would give them again:
the worker then calls a task finished before it begins, its examples are lost, and its reader waits for ever (TF 2.15.1
and 2.21). A worker reports all finished tasks at once, and a dispatcher that does not know one of them refuses all: so
the new dispatcher knows the tasks of the earlier ones, as finished. The records are those of
tensorflow/core/data/service/journal.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tfhet.source import write_record

NUMBERS, DISPATCHERS = 10_000_000, 200
"""How many numbers of each kind a dispatcher may give, and how many dispatchers have numbers of their own. Workers
report finished tasks in 32 bits."""
_FOLDER = "tf_data_dispatcher_journal"
_JOB, _ITERATION, _CLIENT, _RELEASED, _TASK, _FINISHED = 14, 2, 6, 7, 3, 4
"""Fields of `Update`: CreateJob, CreateIteration, AcquireIterationClient, ReleaseIterationClient, CreateTask and
FinishTask."""


def begin(work_dir: Path, generation: int, before: Path | None = None) -> None:
    """Makes the folder `work_dir` of the `generation`-th dispatcher; the first one is 1. before: the folder of the
    previous dispatcher, if there was one."""
    work_dir.mkdir()
    if before is None:
        return
    number = (generation - 1) % DISPATCHERS * NUMBERS
    updates: list[tuple[int, Mapping[int, int | str]]] = [
        (_JOB, {1: number, 2: f"tfhet.generation-{generation}"}),
        (_ITERATION, {1: number, 2: number}),
        (_CLIENT, {1: number, 2: number}),
        (_RELEASED, {1: number}),
    ]
    for task in sorted({number, *_tasks(before)}):
        updates += [(_TASK, {1: task, 2: number}), (_FINISHED, {1: task})]
    (work_dir / _FOLDER).mkdir()
    with open(work_dir / _FOLDER / "journal_0", "wb") as stream:
        for field, message in updates:
            write_record(stream, _encoded({field: _encoded(message)}))


def _tasks(work_dir: Path) -> Iterator[int]:
    """Yields the numbers of the tasks in a journal, whose last record may be cut."""
    for path in sorted((work_dir / _FOLDER).glob("journal_*")):
        data, at = path.read_bytes(), 0
        while at + 12 <= len(data):  # length, checksum of the length, record, checksum of the record
            end = at + 12 + int.from_bytes(data[at : at + 8], "little")
            if end > len(data):
                break
            for field, message in _decoded(data[at + 12 : end]):
                if field == _TASK and isinstance(message, bytes):
                    yield from (value for key, value in _decoded(message) if key == 1 and isinstance(value, int))
            at = end + 4


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


def _decoded(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields the fields of a message: numbers, and the bytes of strings and messages."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        if tag & 7 == 0:
            value, at = _read_varint(data, at)
            yield tag >> 3, value
        else:
            size, at = _read_varint(data, at) if tag & 7 == 2 else (8 if tag & 7 == 1 else 4, at)
            yield tag >> 3, data[at : at + size]
            at += size


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
