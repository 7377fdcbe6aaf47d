"""Stream stages and label stages in whole pipelines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tfhet.placement import Pipeline
from tfhet.source import SyntheticSource, example_id

SOURCE = SyntheticSource(60, 6, shape=(6, 5, 3), classes=4)


def seen(pipeline: Pipeline) -> list[tuple[int, int]]:
    """(epoch, id) in the order in which they come."""
    return [
        (int(epoch), int(id))
        for batch in pipeline.dataset()
        for epoch, id in zip(batch["epoch"], batch["id"], strict=True)
    ]


def test_stream_stage_is_the_same_setting():
    written = Pipeline(SOURCE, "interleave(2); shuffle(30); repeat(2); batch(7); random_flip(); prefetch(3)", seed=4)
    given = Pipeline(SOURCE, "random_flip()", interleave=2, shuffle=30, repeat=2, batch_size=7, prefetch=3, seed=4)
    assert written == given
    assert written.fingerprint() == given.fingerprint()


def test_passes_of_an_epoch_draw_independently():
    pipeline = Pipeline(SOURCE, "random_flip()", batch_size=8, repeat=2, record_parameters=True)
    flips: dict[int, dict[int, bool]] = {0: {}, 1: {}}
    order = []
    for batch in pipeline.dataset():
        for epoch, id, flip in zip(batch["epoch"], batch["id"], batch["random_flip:0/flip_horizontal"], strict=True):
            order.append(int(epoch))
            flips[int(epoch)][int(id)] = bool(flip)
    assert order == [0] * 60 + [1] * 60
    assert flips[0].keys() == flips[1].keys() and len(flips[0]) == 60
    assert flips[0] != flips[1]


def test_endless_passes_follow_one_another():
    pipeline = Pipeline(SOURCE, "repeat(0)", batch_size=20)
    epochs = [int(e) for batch in pipeline.dataset().take(7) for e in batch["epoch"]]
    assert epochs == [0] * 60 + [1] * 60 + [2] * 20


@pytest.mark.parametrize("stages", ["shuffle(10)", "interleave(6); shuffle(25)"])
def test_every_example_is_read_once_in_any_order(stages: str):
    found = Counter(seen(Pipeline(SOURCE, stages, batch_size=8)))
    assert found == Counter((0, example_id(split, position)) for split in range(6) for position in range(10))


def test_kept_records_are_the_same_records(tmp_path: Path):
    pipeline = Pipeline(SOURCE, f"cache({str(tmp_path)!r}); random_flip(); rescale()", batch_size=8)
    plain = Pipeline(SOURCE, "random_flip(); rescale()", batch_size=8)
    images = [
        {int(i): image for b in p.dataset() for i, image in zip(b["id"], b["image"].numpy(), strict=True)}
        for p in (plain, pipeline, pipeline)
    ]
    assert any(tmp_path.iterdir())
    for again in images[1:]:
        assert all(np.array_equal(image, again[key]) for key, image in images[0].items())
