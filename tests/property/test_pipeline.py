"""Examples do not depend on batches, shuffling, shares and cuts."""

from __future__ import annotations

import functools

import numpy as np
from hypothesis import given, settings, strategies as st

from tfhet.pipeline import Cut, Pipeline, one_epoch
from tfhet.source import SyntheticSource

CHAIN = "rescale(); random_flip(vertical=True); random_rotation(0.2)"
SOURCE = SyntheticSource(23, 5, shape=(6, 4, 1), uneven=True)
EPOCH, SEED = 2, 11
NAMES = ("image", "label", "random_flip:1/flip_horizontal", "random_flip:1/flip_vertical", "random_rotation:2/angle")


def declared(**how: int) -> Pipeline:
    return Pipeline(SOURCE, CHAIN, seed=SEED, record_parameters=True, **how)


def examples(pipeline: Pipeline, share: tuple[int, int] = (0, 1)) -> dict[int, tuple]:
    found: dict[int, tuple] = {}
    for batch in one_epoch(pipeline, EPOCH, share, threads=2):
        rows = zip(*(batch[name].numpy() for name in NAMES), strict=True)
        for key, row in zip(batch["id"].numpy().tolist(), rows, strict=True):
            assert key not in found
            found[key] = row
    return found


@functools.cache
def expected() -> dict[int, tuple]:
    return examples(declared(batch_size=23))


@settings(max_examples=6)
@given(batch_size=st.integers(1, 30), shuffle=st.sampled_from([0, 1, 4, 50]), shares=st.integers(1, 3))
def test_examples_do_not_depend_on_batching(batch_size: int, shuffle: int, shares: int):
    pipeline = declared(batch_size=batch_size, shuffle=shuffle)
    found: dict[int, tuple] = {}
    for index in range(shares):
        part = examples(pipeline, (index, shares))
        assert not part.keys() & found.keys()
        found |= part
    assert found.keys() == expected().keys() and len(found) == 23
    for key, row in found.items():
        for name, value, known in zip(NAMES, row, expected()[key], strict=True):
            np.testing.assert_array_equal(value, known, err_msg=f"{name} of {key}")


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["dilate(2)", "rescale(0.5)", "random_flip()", "random_zoom(0.1)"]), max_size=6))
def test_reordering_only_moves_rescales_back(calls: list[str]):
    pipeline = Pipeline(SOURCE, "; ".join(calls))
    placed = pipeline.placed()
    assert sorted(p.declared for p in placed) == list(range(len(calls)))
    rescales, others = ([p.declared for p in placed if p.stage.rescales is wanted] for wanted in (True, False))
    assert rescales == sorted(rescales) and others == sorted(others)
    in_order = Pipeline(SOURCE, "; ".join(calls), reorder=False)
    assert Cut.smallest(pipeline).position >= Cut.smallest(in_order).position
    assert [p.output.dtype for p in placed] == sorted((p.output.dtype for p in placed), reverse=True)
