"""Batches of a Ray data set: their distribution to ranks by the rows of blocks, and the passes of a coordinator."""

import random
import threading
from collections.abc import Callable

import pytest

from tfhet.clock import SYSTEM
from tfhet.errors import DataError, NotReady
from tfhet.planes.ray import coordinator, private
from tfhet.planes.ray.coordinator import Coordinator, Dealing, EndOfShare, Portion


def share(dealing: Dealing, rank: int) -> tuple[list[list[tuple[str, int]]], EndOfShare]:
    """The rows of each batch that a rank gets, and the end."""
    found = []
    for number in range(1000):
        answer = dealing.answer(rank, number)
        if isinstance(answer, EndOfShare):
            return found, answer
        assert isinstance(answer, Portion)
        found.append([(block, row) for block, start, stop in answer.parts for row in range(start, stop)])
    raise AssertionError("no end")


def test_every_row_is_in_one_batch_of_equal_shares():
    order = random.Random(1)
    for _ in range(80):
        size, batch = order.randint(1, 4), order.randint(2, 9)
        blocks = [(f"b{n}", order.randint(1, 20), order.randint(0, 3)) for n in range(order.randint(1, 12))]
        every = [(name, row) for name, rows, first in blocks for row in range(first, first + rows)]
        dealing = Dealing(size, batch, is_equal=False)
        for name, rows, first in blocks:
            dealing.add(name, rows, first)
        if len(every) < size:
            with pytest.raises(DataError, match="larger batches"):
                dealing.end()
            continue
        dealing.end()
        shares = [share(dealing, rank) for rank in range(size)]
        assert sorted(row for found, _ in shares for each in found for row in each) == sorted(every)
        assert {len(found) for found, _ in shares} == {-(-len(every) // batch // size)}
        assert all(0 < len(each) <= batch for found, _ in shares for each in found)
        assert {over for _, over in shares} == {EndOfShare(0, len(every))}


@pytest.mark.parametrize("drop_last", [False, True])
def test_shares_are_equal_and_rest_is_counted(drop_last):
    dealing = Dealing(3, 4, drop_last=drop_last)
    for number in range(7):
        dealing.add(f"b{number}", 5)
    dealing.end()  # 35 rows: 8 batches, and one of 3 rows
    shares = [share(dealing, rank) for rank in range(3)]
    assert [len(found) for found, _ in shares] == [2 if drop_last else 3] * 3
    assert {over for _, over in shares} == {EndOfShare(2 if drop_last else 0, 35)}
    rows = [row for found, _ in shares for batch in found for row in batch]
    assert len(rows) == len(set(rows)) == (24 if drop_last else 35)


def test_blocks_are_batches_without_a_size():
    dealing = Dealing(1)
    dealing.add("a", 3)
    dealing.add("b", 5, 2)
    dealing.end()
    found, _ = share(dealing, 0)
    assert found == [[("a", row) for row in range(3)], [("b", row) for row in range(2, 7)]]


def test_last_round_holds_the_number_of_rows():
    dealing = Dealing(2)
    assert dealing.answer(0, 0) is None
    for block in "abcd":
        assert dealing.answer(0, 0) is None
        dealing.add(block, 10)
    assert dealing.waiting == 4
    assert dealing.answer(0, 0) == Portion((("a", 0, 10),), None)
    assert dealing.answer(0, 1) is None
    dealing.end()
    assert dealing.answer(1, 0) == Portion((("b", 0, 10),), None)
    assert dealing.answer(1, 1) == Portion((("d", 0, 10),), 40)
    assert dealing.answer(1, 2) == EndOfShare(0, 40) and dealing.waiting == 1


def until(happened: Callable[[], object]) -> None:
    end_s = SYSTEM.monotonic() + 20
    while not happened():
        assert SYSTEM.monotonic() < end_s
        SYSTEM.sleep(0.01)


@pytest.fixture
def deals(monkeypatch):
    """A coordinator of two ranks, for which a data set is a list of the names of its blocks, of one row each."""
    monkeypatch.setattr(private, "blocks", lambda dataset: ((block, 0, 1) for block in dataset))
    return Coordinator(2, 1, True, False)


def block(answer) -> str:
    assert isinstance(answer, Portion), answer
    ((name, _, _),) = answer.parts
    return name


def test_pass_stays_until_all_ranks_left_it(deals):
    for number in range(4):
        deals.begin(number, [f"{number}{at}" for at in range(4)])
        assert [block(deals.batch(number, 0, at)) for at in range(2)] == [f"{number}0", f"{number}2"]
        assert deals.batch(number, 0, 2) == EndOfShare(0, 4)
    for number in (0, 1):
        assert [block(deals.batch(number, 1, at)) for at in range(2)] == [f"{number}1", f"{number}3"]
        assert deals.batch(number, 1, 2) == EndOfShare(0, 4)
    assert list(deals._passes) == [1, 2, 3]


def test_dropped_pass_is_an_error(deals):
    for number in range(3):
        deals.begin(number, ["a", "b"])
    for rank in (0, 1):
        assert isinstance(deals.batch(2, rank, 0), Portion)
    with pytest.raises(NotReady, match="pass 1"):
        deals.batch(1, 1, 0)


def test_interrupted_epoch_does_not_delay_the_next(monkeypatch):
    continues = threading.Event()

    def blocks(dataset):
        if dataset == "slow":
            continues.wait(20)
        yield from ((name, 0, 1) for name in "ab")

    monkeypatch.setattr(private, "blocks", blocks)
    deals = Coordinator(2, 1, True, False)
    deals.begin(0, "slow")
    deals.begin(1, "quick")
    assert not continues.is_set()
    assert [block(deals.batch(1, rank, 0)) for rank in (0, 1)] == ["a", "b"]
    continues.set()
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "pass"])
    assert list(deals._passes) == [1]


def test_every_rank_gets_the_error_of_a_task(monkeypatch):
    def blocks(dataset):
        if dataset:
            raise ValueError("upside down")
        yield "a", 0, 1

    monkeypatch.setattr(private, "blocks", blocks)
    deals = Coordinator(2, 1, True, False)
    deals.begin(0, True)
    assert "upside down" in deals.batch(0, 0, 0)
    deals.begin(1, False)
    assert "upside down" in deals.batch(0, 1, 0)


def test_rank_must_request_again_without_a_batch(deals, monkeypatch):
    monkeypatch.setattr(coordinator, "ANSWER_S", 0.05)
    assert deals.batch(0, 1, 0) is None
