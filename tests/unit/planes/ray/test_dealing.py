"""Batches dealt out to ranks by the rows of blocks."""

import random

import pytest

from tfhet.planes.ray.coordinator import Dealing, Over, Portion


def share(dealing: Dealing, rank: int) -> tuple[list[list[tuple[str, int]]], Over]:
    """The rows of each batch that a rank gets, and the end."""
    found = []
    for number in range(1000):
        answer = dealing.answer(rank, number)
        if isinstance(answer, Over):
            return found, answer
        assert isinstance(answer, Portion)
        found.append([(block, row) for block, start, stop in answer.parts for row in range(start, stop)])
    raise AssertionError("no end")


def test_batches_are_cut_of_blocks_of_any_size_and_every_row_is_in_one():
    order = random.Random(1)
    for _ in range(50):
        size, batch = order.randint(1, 4), order.randint(1, 9)
        blocks = [(f"b{n}", order.randint(1, 20), order.randint(0, 3)) for n in range(order.randint(0, 12))]
        dealing = Dealing(size, batch, is_equal=False)
        for name, rows, first in blocks:
            dealing.add(name, rows, first)
        dealing.end()
        found, over = share(dealing, 0)
        every = [(name, row) for name, rows, first in blocks for row in range(first, first + rows)]
        assert [row for each in found for row in each] == every
        assert [len(each) for each in found] == [batch] * (len(every) // batch) + [len(every) % batch] * bool(
            len(every) % batch
        )
        assert over == Over(0, len(every))


@pytest.mark.parametrize("drop_last", [False, True])
def test_all_ranks_get_equally_many_batches_and_those_that_are_left_are_counted(drop_last):
    dealing = Dealing(3, 4, drop_last=drop_last)
    for number in range(7):
        dealing.add(f"b{number}", 5)
    dealing.end()  # 35 rows: 8 batches, and one of 3 rows
    shares = [share(dealing, rank) for rank in range(3)]
    assert [len(found) for found, _ in shares] == [2 if drop_last else 3] * 3
    assert {over for _, over in shares} == {Over(2 if drop_last else 0, 35)}
    rows = [row for found, _ in shares for batch in found for row in batch]
    assert len(rows) == len(set(rows)) == (24 if drop_last else 35)


def test_without_a_size_each_block_is_a_batch():
    dealing = Dealing(1)
    dealing.add("a", 3)
    dealing.add("b", 5, 2)
    dealing.end()
    found, _ = share(dealing, 0)
    assert found == [[("a", row) for row in range(3)], [("b", row) for row in range(2, 7)]]


def test_a_round_is_dealt_out_once_the_next_is_complete_and_the_last_one_says_how_many_rows_there_are():
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
    assert dealing.answer(1, 2) == Over(0, 40) and dealing.waiting == 1
