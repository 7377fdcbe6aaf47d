"""A production makes any batch by number, the same in every process, and limits how far it is ahead."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tfhet.errors import UsageError
from tfhet.planes.feed.credit import LEAST, MOST
from tfhet.planes.feed.delivered import HELD_FOR_A_RANK, BatchRequest
from tfhet.planes.feed.production import EndOfShard, ProducedBatch, Production
from tfhet.planes.feed.share import Share
from tfhet.planes.feed.source import FeedSource, Randomness, Shard, stacked

closed: list[int] = []


def drawn(shard, batches=10):
    try:
        for number in range(batches):
            yield number, random.random(), float(np.random.rand())
    finally:
        closed.append(shard.index)


class Thirty:
    def __len__(self):
        return 30

    def __getitem__(self, index):
        return {"n": index, "drawn": np.random.rand(2)}


def thirty(shard):
    return Thirty()


def summed(examples):
    return sum(one["n"] for one in examples)


def production(make=drawn, seed=3, arguments=None, **options) -> Production:
    return Production(FeedSource.of(make, arguments or {}, **options), seed, is_alone=False)


def value(made: ProducedBatch | EndOfShard):
    assert isinstance(made, ProducedBatch)
    return made.value


def request(number, index=0, first=0, ranks=1, epoch=0, is_rest=False) -> BatchRequest:
    return BatchRequest(Shard(index, 2, epoch), number, first, ranks, is_rest)


def test_random_numbers_of_the_import_do_not_count(tmp_path):
    file = tmp_path / "draws_at_import.py"
    body = "import random\nrandom.random()\ndef make(shard):\n    yield random.random()\n"
    file.write_text(body)
    source = FeedSource("draws_at_import", str(file), "make")
    first, again = (value(Production(source, 3, is_alone=False).batch(request(0))) for _ in range(2))
    assert first == again


class OfRay:
    def iter_internal_ref_bundles(self):
        raise AssertionError


def of_ray(shard):
    return OfRay()


@pytest.mark.parametrize("batch_size", [0, 4])
def test_ray_data_set_is_refused(batch_size):
    production = Production(FeedSource.of(of_ray, {}, batch_size=batch_size), seed=0)
    with pytest.raises(UsageError, match="--data_plane ray"):
        production.batch(BatchRequest(Shard(0, 1), 0, 0))


def test_random_numbers_depend_on_the_shard_alone():
    alone = [value(production().batch(request(4)))] + [None]
    mixed = production()
    other = [value(mixed.batch(request(number, index=1))) for number in range(3)]
    random.seed(1)
    outside = random.random()
    random.seed(1)
    np.random.seed(1)
    assert value(mixed.batch(request(4))) == alone[0]
    assert random.random() == outside
    again = production()
    assert [value(again.batch(request(number, index=1))) for number in range(3)] == other
    assert value(production(seed=4).batch(request(4))) != alone[0]
    assert value(production().batch(request(4, epoch=1))) != alone[0]


def test_map_style_random_numbers_depend_on_the_batch():
    one, other = production(thirty, batch_size=4, shuffle=True), production(thirty, batch_size=4, shuffle=True)
    for number in (5, 0, 7):
        other.batch(request(number))
    first, second = one.batch(request(0)), other.batch(request(0))
    assert isinstance(first, ProducedBatch) and isinstance(second, ProducedBatch)
    np.testing.assert_array_equal(first.value["drawn"], second.value["drawn"])
    assert first.ids is not None and first.value["n"].tolist() == first.ids.tolist() and first.examples == 30
    last = one.batch(request(7))
    assert isinstance(last, ProducedBatch) and len(last.value["n"]) == 2
    assert one.batch(request(8)) == EndOfShard(8)
    orders = [np.concatenate([value(one.batch(request(n, epoch=epoch)))["n"] for n in range(8)]) for epoch in (0, 1)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(30)) and orders[0].tolist() != orders[1].tolist()


def test_drop_last_and_collate():
    made = production(thirty, batch_size=4, drop_last=True, collate=summed)
    assert value(made.batch(request(0))) == 0 + 1 + 2 + 3
    assert made.batch(request(7)) == EndOfShard(7)


def test_incomplete_round_is_served_as_rest_only():
    made = production(arguments={"batches": 7})
    assert value(made.batch(request(3, ranks=3)))[0] == 3
    assert made.batch(request(6, ranks=3)) == EndOfShard(7)
    assert value(made.batch(request(6, ranks=3, is_rest=True)))[0] == 6
    assert made.batch(request(7, ranks=3, is_rest=True)) == EndOfShard(7)
    by_examples = production(thirty, batch_size=4)
    assert by_examples.batch(request(7, ranks=3)) == EndOfShard(8)
    assert isinstance(by_examples.batch(request(7, ranks=3, is_rest=True)), ProducedBatch)


def test_iterable_waits_for_ranks_that_read():
    made = production(arguments={"batches": 1000})
    for number in range(0, 200, 2):  # rank 1 has never asked
        assert made.batch(request(number, ranks=2, first=number)) is not None
    assert value(made.batch(request(1, ranks=2, first=1)))[0] == 1
    assert made.batch(request(200, ranks=2, first=200)) is None
    assert len(made._streams[0, 0].held) <= HELD_FOR_A_RANK * 2
    assert value(made.batch(request(3, ranks=2, first=3)))[0] == 3
    made.remove_reader(1)
    assert value(made.batch(request(200, ranks=2, first=200)))[0] == 200


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_full_credit_of_each_rank_repeats_no_batch(ranks):
    made = production(arguments={"batches": 1000})
    shares = [Share(0, 0, rank, ranks, 1, False) for rank in range(ranks)]
    begun = []
    for most in (LEAST, 1, MOST - 1, MOST):
        for share in shares:
            for one in share.requests(0, most, MOST):
                answer = made.batch(one)
                assert isinstance(answer, ProducedBatch) and answer.value[0] == one.number
            begun.append(made._streams[0, 0])
        for share in shares:
            for ask in list(share._requested):
                share.accept(ask)
    assert len(set(map(id, begun))) == 1
    assert begun[0].made == ranks * (LEAST + 2 * MOST)


def test_repeated_batches_are_counted():
    made = production(arguments={"batches": 100}).batch(request(60, first=60, ranks=2))
    assert isinstance(made, ProducedBatch) and made.value[0] == 60 and made.again == 60 - HELD_FOR_A_RANK * 2


def test_iterables_are_closed():
    closed.clear()
    made = production()
    for number in range(11):
        made.batch(request(number))
    assert closed == [0]
    made.batch(request(0, index=1))
    made.batch(request(0, epoch=2))
    assert closed == [0, 1]
    made.close()
    assert closed == [0, 1, 0]


def test_random_sequence_continues_and_restores_state():
    one, other = Randomness(1, 2), Randomness(1, 2)
    random.seed(0)
    before = random.getstate()
    with one:
        first = random.random()
    with other:
        assert random.random() == first
        second = random.random()
    with one:
        assert random.random() == second
    assert random.getstate() == before


def test_examples_are_stacked_by_their_structure():
    batch = stacked([{"x": np.ones(2), "y": (1, "a"), "z": None}, {"x": np.zeros(2), "y": (2, "b"), "z": None}])
    assert batch["x"].shape == (2, 2) and batch["y"][0].tolist() == [1, 2] and batch["y"][1] == ["a", "b"]
    assert batch["z"] == [None, None]
    with pytest.raises(ValueError, match="same shape"):
        stacked([np.ones(2), np.ones(3)])


BUFFER = np.zeros(4, np.int32)


def reused(shard):
    """Yields one buffer, and one dict, again and again."""
    batch = {}
    for number in range(6):
        BUFFER[:] = number
        batch.update(x=BUFFER, half=BUFFER[:2], parts=[BUFFER.data], n=number)
        yield batch


def into_buffer(examples):
    BUFFER[:] = examples[0]["n"]
    return BUFFER


def test_batches_keep_their_values_if_a_buffer_is_used_again():
    own = production(reused)
    found = [value(own.batch(request(number, first=number, ranks=2))) for number in range(4)]
    assert [(int(one["x"][0]), int(one["half"][1]), one["n"]) for one in found] == [(n, n, n) for n in range(4)]
    assert [np.frombuffer(one["parts"][0], np.int32)[0] for one in found] == [0, 1, 2, 3]
    own = production(thirty, batch_size=10, collate=into_buffer)
    assert [int(one[0]) for one in [value(own.batch(request(number))) for number in range(3)]] == [0, 10, 20]
