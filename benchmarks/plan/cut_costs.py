"""Costs of batches outside any job, at places where the pipeline can be cut, on one CPU.

It runs on that CPU from its first moment on, as the processes of a simulated host do: TensorFlow starts as many threads
as it sees CPUs, and two that share a quota cost a third more than one.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.cluster_runs import batch_cpu
from tfhet.bench.child_process import answer_requests

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.placement import Pipeline

ROUNDS = 3
ROUND_CPU_S = 0.35


def main(argv: Sequence[str] | None = None) -> None:
    """Answers until its input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cpu", type=int)
    given = parser.parse_args(argv)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {given.cpu})
    answer_requests(lambda asked: costs(batch_cpu.pipeline_of(asked), asked["positions"]))


def costs(pipeline: Pipeline, at: Sequence[int] | None = None) -> dict[str, Any]:
    """Costs of a pipeline that is cut at these positions, as jobs run it: CPU seconds of a batch, round by round; of
    the wire those of the reader and those of the others. Without positions those of one that is not cut, in `whole_s`,
    which is empty otherwise. None: of all cuts, and of none."""
    from tfhet.placement import Cut, local_part, remote_part

    found: list[dict[str, Any]] = []
    held: dict[int, tf.data.Dataset] = {}
    for position in positions(pipeline) if at is None else at:
        cut = Cut(position)
        remote = remote_part(pipeline, None, cut)
        held[position] = batch_cpu.in_memory(remote)
        dtype, size = _bytes(next(iter(held[position])))
        found.append(
            {
                "position": position,
                "dtype": dtype,
                "bytes": size,
                "remote_s": _rounds(iter(remote)),
                "local_s": _rounds(iter(local_part(pipeline, held[position], cut))),
            }
        )
    wire = asyncio.run(_wire(held)) if held else {}
    cuts = [{**cut, "wire_s": wire[cut["position"]]} for cut in found]
    return {"cuts": cuts, "whole_s": _rounds(batch_cpu.whole(pipeline)) if not at else []}


def positions(pipeline: Pipeline) -> list[int]:
    """Where it can be cut without taking apart what is fused."""
    from tfhet.placement import Cut, steps

    ends = [0, *itertools.accumulate(len(step.stages) for step in steps(pipeline))]
    return [end for end in ends if not Cut(end).spec(pipeline).ragged]


def _bytes(element: Any) -> tuple[str, int]:
    """The dtype of most of a batch, and all of its bytes."""
    import tensorflow as tf

    sizes: collections.Counter[str] = collections.Counter()
    for value in tf.nest.flatten(element):
        is_text = value.dtype == tf.string
        sizes[value.dtype.name] += (
            int(tf.reduce_sum(tf.strings.length(value))) if is_text else int(tf.size(value)) * value.dtype.size
        )
    return sizes.most_common(1)[0][0], sizes.total()


def _rounds(batches: Iterator[Any]) -> list[float]:
    return [sum(each) for each in batch_cpu.rounds(batches, ROUNDS, ROUND_CPU_S)]


async def _wire(held: Mapping[int, tf.data.Dataset]) -> dict[int, list[batch_cpu.Round]]:
    """By position of the cut: the reader's and that of the others."""
    async with batch_cpu.service() as dispatcher:
        return {at: await asyncio.to_thread(_moved, each, at, dispatcher) for at, each in held.items()}


def _moved(held: tf.data.Dataset, position: int, dispatcher: str) -> list[batch_cpu.Round]:
    return batch_cpu.rounds(batch_cpu.moved(held, dispatcher, f"held-{position}"), ROUNDS, ROUND_CPU_S)


if __name__ == "__main__":
    main()
