from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfhet.pipeline import Cut, Pipeline, Rest
from tfhet.planes.tf_service.reader import ServiceReader, sharing_advice
from tfhet.planes.tf_service.transport import Transport
from tfhet.source import SyntheticSource, example_id
from tfhet.strategies import JobContext

CHAIN = "dilate(3); random_rotation(0.1); rescale(); random_flip()"


def pipeline(stages: str = CHAIN, examples: int = 90, splits: int = 12, **settings: Any) -> Pipeline:
    source = SyntheticSource(examples, splits, shape=(8, 6, 3), uneven=True)
    return Pipeline(source, stages, **{"batch_size": 4, **settings})


def epoch_dataset(
    declared: Pipeline,
    epoch: int,
    job: JobContext,
    transport: Transport | None = None,
    rest: Rest | None = None,
    number: int = 0,
    cut: Cut | None = None,
) -> tf.data.Dataset:
    """This rank's share, registered by whoever comes first."""
    reader = ServiceReader(declared, job, transport=transport, cut=cut)
    reader.agree()
    reader.offer(epoch, rest, number)
    return reader.dataset(epoch, rest, number).skip(1)  # the first batch is empty, so that it is there at once


def ids(batches: Iterable[Mapping[str, tf.Tensor]]) -> list[int]:
    return [int(i) for batch in batches for i in batch["id"]]


def all_ids(declared: Pipeline) -> list[int]:
    sizes = declared.source.split_sizes()
    return [example_id(split, position) for split, size in enumerate(sizes) for position in range(size)]


def by_id(batches: Iterable[Mapping[str, tf.Tensor]], *names: str) -> dict[int, list[np.ndarray]]:
    return {
        int(row[0]): list(row[1:])
        for batch in batches
        for row in zip(batch["id"], *(batch[name].numpy() for name in names), strict=True)
    }


@pytest.mark.parametrize(("readers", "workers"), [(1, 3), (3, 1), (3, 3)])
def test_unequal_readers_share_examples_exactly_once(serve, readers, workers):
    declared = pipeline("")
    jobs = serve(workers).ranks(readers)
    # Each reader begins when the one before has read two batches, the last one first of all.
    turn = [threading.Event() for _ in range(readers + 1)]
    turn[readers].set()

    def read(rank: int) -> list[int]:
        assert turn[rank + 1].wait(60)
        found: list[int] = []
        for count, batch in enumerate(epoch_dataset(declared, 0, jobs[rank])):
            found += ids([batch])
            if count == 1:
                turn[rank].set()
        turn[rank].set()
        return found

    with ThreadPoolExecutor(readers) as pool:
        shares = list(pool.map(read, range(readers)))
    assert sorted(i for share in shares for i in share) == all_ids(declared)


def test_two_cuts_are_two_data_sets(served):
    declared, job = pipeline(), served.job()
    found = [by_id(epoch_dataset(declared, 0, job, cut=Cut(at)), "image") for at in (0, 2)]
    assert found[1].keys() == found[0].keys()
    assert all((value[0] == found[0][key][0]).all() for key, value in found[1].items())


def test_whole_batches_travel(served):
    sizes = Counter(len(batch["id"]) for batch in epoch_dataset(pipeline(""), 0, served.job()))
    assert set(sizes) <= {1, 2, 3, 4}
    assert sum(count for size, count in sizes.items() if size < 4) <= served.workers


@pytest.mark.parametrize(
    ("splits", "workers", "wanted"), [(8, 3, 12), (11, 3, 12), (1, 1, 4), (12, 3, None), (1, 0, None)]
)
def test_advice_names_the_files_that_workers_need(splits, workers, wanted):
    advice = sharing_advice(pipeline("", splits=splits), workers)
    assert (advice is None) if wanted is None else (f"{wanted} files" in str(advice))
