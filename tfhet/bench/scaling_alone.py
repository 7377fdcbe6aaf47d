"""What a batch costs apart: `python -m tfhet.bench.scaling_alone CHANNEL ...`, a process of its own, which measures for
each line that it reads.

First the pipeline alone, in this process, without a service. Then the wire: batches of it that lie in a worker's
memory are moved to this process through a dispatcher and a worker as jobs have them, and the CPU of all three counts.

The process has one CPU, as a host of less than one has: TensorFlow starts as many threads as it sees CPUs, and two of
them on little CPU are dearer than one (measured: 205 ms and 148 ms for the same batch).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfhet.bench.apart import MARK
from tfhet.bench.meter import children_cpu_s
from tfhet.clock import SYSTEM
from tfhet.cluster import environment, free_ports
from tfhet.errors import TfhetError

if TYPE_CHECKING:
    import tensorflow as tf

ROUNDS = 2
ROUND_CPU_S = 0.4
"""CPU seconds of a round, at least."""
READY_BATCHES = 4
"""Batches that may be ready when a measurement begins, at most: they are taken before."""
IN_MEMORY = 4
"""Batches that the wire moves again and again."""
READY_S = 60.0


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
    def parse(cls, text: str) -> Alone:
        """What the process says. Raises TfhetError for anything else."""
        try:
            found = json.loads(text)
            stages_s, wire_s, reader_s = (tuple(found[name]) for name in ("stages_s", "wire_s", "reader_s"))
            return cls(stages_s, wire_s, reader_s, int(found["bytes_per_batch"]))
        except (ValueError, TypeError, KeyError):
            raise TfhetError(f"the process that measures the parts alone said {text!r}") from None


def main(argv: Sequence[str] | None = None) -> None:
    """Measures one load, as often as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("channel", type=Path)
    parser.add_argument("--chain", required=True)
    parser.add_argument("--form", required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    given = parser.parse_args(argv)
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    local, remote = datasets(given.channel, given.chain, given.form, given.batch_size)
    asyncio.run(_serve(iter(local), remote))


async def _serve(batches: Iterator[Any], remote: tf.data.Dataset) -> None:
    from tfhet.service import Fleet
    from tfhet.service.transport import Transport

    dispatcher, worker = free_ports(2)
    fleet = Fleet("alone", "127.0.0.1", environment(), on_line=lambda line: print(line, file=sys.stderr))
    try:
        await fleet.start_dispatcher(dispatcher, READY_S)
        await fleet.start_workers([worker], f"127.0.0.1:{dispatcher}", READY_S)
        held = remote.take(IN_MEMORY).cache().repeat()
        answer = _answering(batches, held, f"127.0.0.1:{dispatcher}", Transport())
        while await asyncio.to_thread(sys.stdin.readline):
            print(MARK + json.dumps(await asyncio.to_thread(answer)), flush=True)
    finally:
        await fleet.stop()


def _answering(
    batches: Iterator[Any], held: tf.data.Dataset, dispatcher: str, transport: Any
) -> Callable[[], dict[str, Any]]:
    import tensorflow as tf

    from tfhet.placement import without_autotune

    transport.publish(dispatcher, held, "held")
    moved = iter(without_autotune(transport.read(dispatcher, "held", held.element_spec, "held.job", "off")))
    size = sum(int(tf.size(part)) * part.dtype.size for part in tf.nest.flatten(next(moved)))

    def answer() -> dict[str, Any]:
        stages, wire = rounds(batches), rounds(moved)
        return {
            "stages_s": [own_s for own_s, _ in stages],
            "wire_s": [own_s + below_s for own_s, below_s in wire],
            "reader_s": [own_s for own_s, _ in wire],
            "bytes_per_batch": size,
        }

    return answer


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
    return one_epoch(pipeline, None).repeat(), remote_part(pipeline, None, Cut.smallest(pipeline))


def rounds(batches: Iterator[Any]) -> list[tuple[float, float]]:
    """CPU seconds per batch of this process, and of those below it, round by round."""
    for _ in range(READY_BATCHES):
        next(batches)
    found: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        own_s, below_s, taken, spent = SYSTEM.cpu(), children_cpu_s(), 0, (0.0, 0.0)
        while sum(spent) < ROUND_CPU_S:
            for _ in range(taken or READY_BATCHES):
                next(batches)
            taken += taken or READY_BATCHES
            spent = SYSTEM.cpu() - own_s, children_cpu_s() - below_s
        found.append((spent[0] / taken, spent[1] / taken))
    return found


if __name__ == "__main__":
    main()
