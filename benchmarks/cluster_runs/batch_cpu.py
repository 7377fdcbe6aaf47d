"""CPU time of batches outside any job: a child process that measures it on one CPU.

TensorFlow starts as many threads as it sees CPUs, and two threads that share a quota cost a third more than one. So the
process has one CPU from its start, as the processes of a simulated host have.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import os
import secrets
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.job_scripts import inputs
from tfhet.bench.case import children_cpu_s
from tfhet.bench.child_process import answer_requests
from tfhet.clock import SYSTEM
from tfhet.cluster import environment, free_ports
from tfhet.planes.cpus import usable

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.pipeline import Pipeline

MODULE = "benchmarks.cluster_runs.batch_cpu"
ROUNDS, ROUND_CPU_S = 3, 0.35
"""Number of rounds that count, and the least CPU seconds of each."""
FIRST_BATCHES = 8
"""First batches of a pipeline, made while its functions are compiled."""
LOOK_BATCHES = 4
"""Batches before the first look at the clock. Their number doubles, because a look costs as much as a small batch."""
IN_MEMORY = 4
"""Batches that a worker keeps in memory, to move them again and again."""
READY_S = 60.0
_KEY = secrets.token_bytes(32)


def main() -> None:
    """Answers requests until its input ends."""
    os.sched_setaffinity(0, {max(usable() or (0,))})
    answer_requests(answer)


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Measures a load.

    Args:
        request: `load`, the fields of an `inputs.Load`; and `positions` at which its pipeline is cut: none if it is
            missing or empty, all if it is None.

    Returns:
        `whole_s`: CPU seconds per batch of the uncut input in this process, by round; empty if only positions were
        requested. `cuts`: the costs of the pipeline at each position (`_cut_costs`).
    """
    load, at = inputs.Load(**request["load"]), request.get("positions", [])
    cuts: list[dict[str, Any]] = []
    if at != []:
        pipeline = load.pipeline()
        cuts = _cut_costs(pipeline, positions(pipeline) if at is None else at)
    return {"whole_s": [] if at else [sum(each) for each in rounds(load.alone())], "cuts": cuts}


def positions(pipeline: Pipeline) -> list[int]:
    """Returns the positions at which the pipeline can be cut without taking fused stages apart."""
    from tfhet.pipeline import Cut

    ends = [0, *itertools.accumulate(len(step.stages) for step in pipeline.steps())]
    return [end for end in ends if not Cut(end).spec(pipeline).ragged]


def rounds(batches: Iterator[Any]) -> list[tuple[float, float]]:
    """Measures ROUNDS rounds after one that does not count, in which batches may be ready already.

    Returns:
        CPU seconds per batch of this process, and of the processes that it started, by round.
    """
    for _ in range(FIRST_BATCHES):
        next(batches)
    found = []
    for _ in range(1 + ROUNDS):
        own_s, below_s, taken, spent = SYSTEM.cpu(), children_cpu_s(), 0, (0.0, 0.0)
        while sum(spent) < ROUND_CPU_S:
            for _ in range(taken or LOOK_BATCHES):
                next(batches)
            taken += taken or LOOK_BATCHES
            spent = SYSTEM.cpu() - own_s, children_cpu_s() - below_s
        found.append((spent[0] / taken, spent[1] / taken))
    return found[1:]


def _cut_costs(pipeline: Pipeline, at: Sequence[int]) -> list[dict[str, Any]]:
    """CPU seconds per batch before and after each cut, and of moving the batch: `wire_s` has a reader and a sender."""
    from tfhet.pipeline import Cut, local_part, remote_part

    found: list[dict[str, Any]] = []
    held: list[tf.data.Dataset] = []
    for position in at:
        cut = Cut(position)
        remote = remote_part(pipeline, None, cut)
        held.append(remote.take(IN_MEMORY).cache().repeat())
        dtype, size = _bytes(next(iter(held[-1])))
        remote_s, local_s = (
            [sum(each) for each in rounds(iter(part))] for part in (remote, local_part(pipeline, held[-1], cut))
        )
        found.append({"position": position, "dtype": dtype, "bytes": size, "remote_s": remote_s, "local_s": local_s})
    wires = asyncio.run(_wire_costs(held))
    return [{**cut, "wire_s": wire_s} for cut, wire_s in zip(found, wires, strict=True)]


def _bytes(element: Any) -> tuple[str, int]:
    """The dtype of most of a batch, and the bytes of the batch."""
    import tensorflow as tf

    sizes: collections.Counter[str] = collections.Counter()
    for value in tf.nest.flatten(element):
        is_text = value.dtype == tf.string
        sizes[value.dtype.name] += (
            int(tf.reduce_sum(tf.strings.length(value))) if is_text else int(tf.size(value)) * value.dtype.size
        )
    return sizes.most_common(1)[0][0], sizes.total()


async def _wire_costs(held: Sequence[tf.data.Dataset]) -> list[list[tuple[float, float]]]:
    async with _service() as dispatcher:

        def costs(index: int) -> list[tuple[float, float]]:
            return rounds(_moved(held[index], dispatcher, f"held-{index}"))

        return [await asyncio.to_thread(costs, index) for index in range(len(held))]


@contextlib.asynccontextmanager
async def _service() -> AsyncIterator[str]:
    """Runs a dispatcher, whose address it yields, and a worker, as jobs have them."""
    from tfhet.planes.tf_service import Fleet

    dispatcher, worker = free_ports(2)
    fleet = Fleet("alone", "127.0.0.1", environment(), key=_KEY, on_line=lambda line: print(line, file=sys.stderr))
    try:
        await fleet.start_dispatcher(dispatcher, READY_S)
        await fleet.start_workers([worker], f"127.0.0.1:{dispatcher}", READY_S)
        yield f"127.0.0.1:{dispatcher}"
    finally:
        await fleet.stop()


def _moved(held: tf.data.Dataset, dispatcher: str, name: str) -> Iterator[Any]:
    """Its elements, as a trainer reads them from the service."""
    from tfhet.pipeline import without_autotune
    from tfhet.planes.tf_service import Transport, Wire

    transport, wire = Transport(), Wire.join(_KEY, "another-host")  # so that batches travel over TCP
    transport.publish(wire, dispatcher, held, name)
    return iter(without_autotune(transport.read(wire, dispatcher, name, held.element_spec, "off")))


if __name__ == "__main__":
    main()
