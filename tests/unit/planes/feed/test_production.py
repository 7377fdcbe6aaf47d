"""The batches of a server: any one by its number, the same in every process, and no further ahead than it may be."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tfhet.errors import UsageError
from tfhet.planes.feed.credit import LEAST, MOST
from tfhet.planes.feed.production import HELD_FOR_A_RANK, Made, Over, Production, Wish
from tfhet.planes.feed.randomness import Randomness
from tfhet.planes.feed.share import Share
from tfhet.planes.feed.source import FeedSource, Shard, stacked

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


def value(made: Made | Over):
    assert isinstance(made, Made)
    return made.value


def wish(number, index=0, first=0, ranks=1, epoch=0, is_rest=False) -> Wish:
    return Wish(Shard(index, 2, epoch), number, first, ranks, is_rest)


def test_what_the_module_draws_while_it_is_imported_is_not_the_shards(tmp_path):
    file = tmp_path / "draws_at_import.py"
    body = "import random\nrandom.random()\ndef make(shard):\n    yield random.random()\n"
    file.write_text(body)
    source = FeedSource("draws_at_import", str(file), "make")
    first, again = (value(Production(source, 3, is_alone=False).batch(wish(0))) for _ in range(2))
    assert first == again, "whether this process had imported it or not"


class OfRay:
    def iter_internal_ref_bundles(self):
        raise AssertionError


def of_ray(shard):
    return OfRay()


@pytest.mark.parametrize("batch_size", [0, 4])
def test_a_data_set_of_ray_is_left_to_its_plane(batch_size):
    production = Production(FeedSource.of(of_ray, {}, batch_size=batch_size), seed=0)
    with pytest.raises(UsageError, match="a Ray data set, which --data_plane ray reads"):
        production.batch(Wish(Shard(0, 1), 0, 0))


def test_random_numbers_belong_to_the_shard_whatever_is_made_beside_it_and_again():
    alone = [value(production().batch(wish(4)))] + [None]
    mixed = production()
    other = [value(mixed.batch(wish(number, index=1))) for number in range(3)]
    random.seed(1)
    outside = random.random()
    random.seed(1)
    np.random.seed(1)
    assert value(mixed.batch(wish(4))) == alone[0]
    assert random.random() == outside, "the numbers outside go on as if nothing had been made"
    again = production()
    assert [value(again.batch(wish(number, index=1))) for number in range(3)] == other
    assert value(production(seed=4).batch(wish(4))) != alone[0]
    assert value(production().batch(wish(4, epoch=1))) != alone[0]


def test_random_numbers_of_a_map_style_dataset_belong_to_the_batch():
    one, other = production(thirty, batch_size=4, shuffle=True), production(thirty, batch_size=4, shuffle=True)
    for number in (5, 0, 7):
        other.batch(wish(number))
    first, second = one.batch(wish(0)), other.batch(wish(0))
    assert isinstance(first, Made) and isinstance(second, Made)
    np.testing.assert_array_equal(first.value["drawn"], second.value["drawn"])
    assert first.ids is not None and first.value["n"].tolist() == first.ids.tolist() and first.examples == 30
    last = one.batch(wish(7))
    assert isinstance(last, Made) and len(last.value["n"]) == 2
    assert one.batch(wish(8)) == Over(8)
    orders = [np.concatenate([value(one.batch(wish(n, epoch=epoch)))["n"] for n in range(8)]) for epoch in (0, 1)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(30)) and orders[0].tolist() != orders[1].tolist()


def test_what_does_not_fill_a_batch_is_dropped_if_asked_and_collate_makes_the_batches():
    made = production(thirty, batch_size=4, drop_last=True, collate=summed)
    assert value(made.batch(wish(0))) == 0 + 1 + 2 + 3
    assert made.batch(wish(7)) == Over(7)


def test_a_round_without_a_batch_for_each_rank_comes_as_a_rest_only():
    made = production(arguments={"batches": 7})
    assert value(made.batch(wish(3, ranks=3)))[0] == 3
    assert made.batch(wish(6, ranks=3)) == Over(7)
    assert value(made.batch(wish(6, ranks=3, is_rest=True)))[0] == 6
    assert made.batch(wish(7, ranks=3, is_rest=True)) == Over(7)
    by_examples = production(thirty, batch_size=4)
    assert by_examples.batch(wish(7, ranks=3)) == Over(8)
    assert isinstance(by_examples.batch(wish(7, ranks=3, is_rest=True)), Made)


def test_an_iterable_waits_for_a_rank_that_reads_and_not_for_one_that_never_did_or_is_gone():
    made = production(arguments={"batches": 1000})
    for number in range(0, 200, 2):  # rank 1 has never asked
        assert made.batch(wish(number, ranks=2, first=number)) is not None
    assert value(made.batch(wish(1, ranks=2, first=1)))[0] == 1, "made again for a rank that comes late"
    assert made.batch(wish(200, ranks=2, first=200)) is None, "that rank reads, and would lose all of what is between"
    assert len(made._streams[0, 0].held) <= HELD_FOR_A_RANK * 2
    assert value(made.batch(wish(3, ranks=2, first=3)))[0] == 3
    made.gone(1)
    assert value(made.batch(wish(200, ranks=2, first=200)))[0] == 200


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_ranks_that_each_ask_for_as_much_as_they_may_at_once_have_nothing_made_twice(ranks):
    made = production(arguments={"batches": 1000})
    shares = [Share(0, 0, rank, ranks, 1, False) for rank in range(ranks)]
    begun = []
    for most in (LEAST, 1, MOST - 1, MOST):
        for share in shares:
            for one in share.wishes(0, most, MOST):
                answer = made.batch(one)
                assert isinstance(answer, Made) and answer.value[0] == one.number
            begun.append(made._streams[0, 0])
        for share in shares:
            for ask in list(share._asked):
                share.came(ask)
    assert len(set(map(id, begun))) == 1
    assert begun[0].made == ranks * (LEAST + 2 * MOST)


def test_what_is_made_in_place_of_another_process_says_how_much_was_made_again():
    made = production(arguments={"batches": 100}).batch(wish(60, first=60, ranks=2))
    assert isinstance(made, Made) and made.value[0] == 60 and made.again == 60 - HELD_FOR_A_RANK * 2


def test_iterables_are_closed_at_their_end_after_two_epochs_and_at_last():
    closed.clear()
    made = production()
    for number in range(11):
        made.batch(wish(number))
    assert closed == [0]
    made.batch(wish(0, index=1))
    made.batch(wish(0, epoch=2))
    assert closed == [0, 1]
    made.close()
    assert closed == [0, 1, 0]


def test_a_sequence_of_random_numbers_goes_on_and_leaves_no_trace():
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
