from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfhet.source import example_id
from tfhet.strategies.solo import SoloCollective
from tfhet.trainer.audit import Audit, Visits


def source(*sizes: int, known: bool = True) -> Any:
    return SimpleNamespace(
        split_count=lambda: len(sizes),
        example_count=lambda: sum(sizes) if known else None,
        split_sizes=lambda: sizes if known else None,
    )


def numbers(*ids: int) -> np.ndarray:
    return np.array(ids, np.int64)


def test_ids_are_counted_by_how_often_they_came():
    found = Visits.of(numbers(5, 7, 7, 9, 9, 9, 1 << 40), expected=6)
    assert found == Visits(expected=6, before=0, seen=7, once=2, repeated=2, bad=0, missing=2, rereads=0)


def test_what_is_missing_is_unknown_where_the_number_of_examples_is():
    found = Visits.of(numbers(5, 5), None)
    assert (found.expected, found.missing, found.repeated) == (None, None, 1)


def test_an_example_that_an_earlier_run_saw_is_neither_once_nor_missing():
    found = Visits.of(numbers(1, 2, 3, 4), 8, before=numbers(4, 5, 6, 6))
    assert (found.before, found.once, found.repeated, found.missing, found.seen) == (2, 3, 1, 2, 4)


def test_what_is_known_to_be_bad_is_not_missing_unless_it_came_after_all():
    found = Visits.of(numbers(1, 2), 5, bad=numbers(2, 3))
    assert (found.once, found.bad, found.missing) == (2, 1, 2)


@given(
    st.lists(st.integers(0, 11), max_size=20), st.lists(st.integers(0, 11), max_size=20), st.sets(st.integers(0, 11))
)
def test_every_example_is_in_exactly_one_column(ids: list[int], before: list[int], bad: set[int]):
    found = Visits.of(numbers(*ids), 12, numbers(*before), numbers(*sorted(bad)))
    assert found.missing is not None
    assert found.before + found.once + found.repeated + found.bad + found.missing == 12
    assert found.before == len(set(before) - set(ids))
    assert found.seen == len(ids)
    assert found.missing == len(set(range(12)) - set(ids) - set(before) - bad)


def test_the_visits_of_several_passes_are_added_and_what_is_unknown_stays_so():
    first, second = Visits.of(numbers(1, 2), 4), Visits.of(numbers(1, 1, 3, 4), 4, rereads=2)
    assert Visits.total([first, second]) == Visits(8, 0, 6, 4, 1, 0, 3, 2)
    assert Visits.total([first, Visits.of(numbers(1), None)]).missing is None


def test_what_was_not_exchanged_is_not_known_yet():
    audit = Audit(source(4))
    audit.saw(numbers(1, 2))
    assert audit.seen.tolist() == [] and audit.count == 0
    audit.exchange(SoloCollective())
    audit.saw(numbers(3))
    assert audit.seen.tolist() == [1, 2]
    audit.exchange(SoloCollective())
    audit.exchange(SoloCollective())
    assert audit.seen.tolist() == [1, 2, 3] and audit.count == 3
    assert audit.visits().missing == 1


def test_what_earlier_runs_saw_and_what_is_bad_is_no_rest():
    audit = Audit(source(2, 3), before=numbers(0, 1), bad=numbers(example_id(1, 2)))
    assert audit.is_resumed and not Audit(source(2)).is_resumed
    rest = audit.rest()
    assert rest is not None
    assert rest.splits.tolist() == [False, True] and rest.seen.tolist() == [example_id(1, 2)]
    assert audit.missing().tolist() == [example_id(1, 0), example_id(1, 1)]
    audit.saw(numbers(example_id(1, 0), example_id(1, 1)))
    audit.exchange(SoloCollective())
    assert audit.rest() is None and audit.missing().size == 0
    assert audit.seen.tolist() == [0, 1, example_id(1, 0), example_id(1, 1)]


def test_the_visits_are_those_of_all_ranks(each_rank):
    def rank(together) -> tuple[Visits, list[int]]:
        audit = Audit(source(7))
        audit.saw(np.arange(together.rank * 3, dtype=np.int64))  # nothing; 0 1 2; 0 1 2 3 4 5
        audit.exchange(together)
        return audit.visits(), audit.missing().tolist()

    expected = Visits(expected=7, before=0, seen=9, once=3, repeated=3, bad=0, missing=1, rereads=0)
    assert each_rank(3, rank) == [(expected, [6])] * 3
