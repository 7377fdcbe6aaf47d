"""What a batch costs apart: `python -m tfhet.bench.scaling_alone CHANNEL ...`, a process of its own.

First the pipeline alone, in this process, without a service. Then the wire: batches of it that lie in a worker's
memory are moved to this process through a dispatcher and a worker as jobs have them, and the CPU of all three counts.
Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfhet.bench.meter import children_cpu_s
from tfhet.bench.throttled import READY
from tfhet.clock import SYSTEM
from tfhet.cluster import environment, free_ports
from tfhet.errors import TfhetError

if TYPE_CHECKING:
    import tensorflow as tf

ROUNDS = 4
ROUND_CPU_S = 0.6
"""CPU seconds of a round, at least."""
LEAST_BATCHES = 8
IN_MEMORY = 4
"""Batches that the wire moves again and again."""
READY_S = 60.0
MARK = "[alone] "


@dataclass(frozen=True)
class Alone:
    """CPU seconds per batch, one value a round."""

    stages_s: tuple[float, ...]
    wire_s: tuple[float, ...]
    reader_s: tuple[float, ...]
    """The part of the wire's that the reading process has, which no other host can take over."""
    bytes_per_batch: int
    """On the wire."""

    def and_again(self, later: Alone) -> Alone:
        """The rounds of both measurements."""
        both = (self, later)
        stages_s, wire_s, reader_s = (
            tuple(value for one in both for value in getattr(one, name)) for name in ("stages_s", "wire_s", "reader_s")
        )
        return Alone(stages_s, wire_s, reader_s, self.bytes_per_batch)

    @classmethod
    def from_line(cls, line: str) -> Alone:
        """Of the line that the process prints. Raises TfhetError for another."""
        if not line.startswith(MARK):
            raise TfhetError(f"the process that measures the parts alone said {line!r}")
        found = json.loads(line[len(MARK) :])
        stages_s, wire_s, reader_s = (tuple(found[name]) for name in ("stages_s", "wire_s", "reader_s"))
        return cls(stages_s, wire_s, reader_s, int(found["bytes_per_batch"]))


def main(argv: Sequence[str] | None = None) -> None:
    """Measures one load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("channel", type=Path)
    parser.add_argument("--chain", required=True)
    parser.add_argument("--form", required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    given = parser.parse_args(argv)
    local, remote = datasets(given.channel, given.chain, given.form, given.batch_size)
    batches = iter(local)
    next(batches)
    print(READY, flush=True)
    stages = rounds(batches)
    wire, size = asyncio.run(_wire(remote))
    found = {
        "stages_s": [both[0] for both in stages],
        "wire_s": [sum(both) for both in wire],
        "reader_s": [both[0] for both in wire],
        "bytes_per_batch": size,
    }
    print(MARK + json.dumps(found), flush=True)


def datasets(channel: Path, chain: str, form: str, batch_size: int) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Without end: all of the pipeline in one process, and the part of it that runs on workers."""
    from tfhet.bench import as_written

    if form == "example":
        files = sorted(str(path) for path in channel.glob("*.tfrecord*"))
        made = as_written.dataset(chain, files, batch_size, repeat=-1)
        return made, made
    from tfhet.placement import Cut, Pipeline, one_epoch, remote_part
    from tfhet.source import TFRecordSource

    pipeline = Pipeline(TFRecordSource.from_directory(str(channel)), chain, batch_size)
    return one_epoch(pipeline, None), remote_part(pipeline, None, Cut.smallest(pipeline))


def rounds(batches: Iterator[Any]) -> list[tuple[float, float]]:
    """CPU seconds per batch of this process, and of those below it, round by round; the first round, which is not
    counted, says how many batches one has."""
    found: list[tuple[float, float]] = []
    count = LEAST_BATCHES
    for turn in range(ROUNDS + 1):
        own_s, below_s, taken = SYSTEM.cpu(), children_cpu_s(), 0
        while True:
            for _ in range(count):
                next(batches)
            taken += count
            spent = SYSTEM.cpu() - own_s, children_cpu_s() - below_s
            if turn or sum(spent) >= ROUND_CPU_S:
                break
        if turn:
            found.append((spent[0] / taken, spent[1] / taken))
        else:
            count = taken
    return found


async def _wire(remote: tf.data.Dataset) -> tuple[list[tuple[float, float]], int]:
    from tfhet.service import Fleet
    from tfhet.service.transport import Transport

    dispatcher, worker = free_ports(2)
    fleet = Fleet("alone", "127.0.0.1", environment(), on_line=lambda line: print(line, file=sys.stderr))
    try:
        await fleet.start_dispatcher(dispatcher, READY_S)
        await fleet.start_workers([worker], f"127.0.0.1:{dispatcher}", READY_S)
        read = _reader(remote.take(IN_MEMORY).cache().repeat(), f"127.0.0.1:{dispatcher}", Transport())
        return await asyncio.to_thread(read)
    finally:
        await fleet.stop()


def _reader(
    held: tf.data.Dataset, dispatcher: str, transport: Any
) -> Callable[[], tuple[list[tuple[float, float]], int]]:
    import tensorflow as tf

    from tfhet.placement import without_autotune

    def read() -> tuple[list[tuple[float, float]], int]:
        transport.publish(dispatcher, held, "held")
        served = transport.read(dispatcher, "held", held.element_spec, "held.job", "off")
        batches = iter(without_autotune(served))
        for _ in range(2 * IN_MEMORY):
            element = next(batches)
        size = sum(int(tf.size(part)) * part.dtype.size for part in tf.nest.flatten(element))
        return rounds(batches), size

    return read


if __name__ == "__main__":
    main()
