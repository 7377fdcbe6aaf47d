from __future__ import annotations

import numpy as np

from tfhet.trainer import Solo
from tfhet.trainer.audit import Audit, Visits


def test_ids_are_counted_by_how_often_they_came():
    found = Visits.of(np.array([5, 7, 7, 9, 9, 9, 1 << 40]), expected=6)
    assert found == Visits(expected=6, seen=7, once=2, repeated=2, missing=2)


def test_what_is_missing_is_unknown_where_the_number_of_examples_is():
    assert Visits.of(np.array([5, 5]), None) == Visits(None, 2, 0, 1, None)


def test_an_audit_starts_anew_when_it_is_closed():
    audit = Audit()
    audit.saw(np.array([1, 2]))
    audit.saw(np.array([3]))
    assert audit.close(4, Solo()) == Visits(4, 3, 3, 0, 1)
    assert audit.close(4, Solo()) == Visits(4, 0, 0, 0, 4)


def test_the_visits_are_those_of_all_ranks(each_rank):
    def rank(together) -> Visits:
        audit = Audit()
        audit.saw(np.arange(together.rank * 3, dtype=np.int64))  # nothing; 0 1 2; 0 1 2 3 4 5
        return audit.close(7, together)

    assert each_rank(3, rank) == [Visits(expected=7, seen=9, once=3, repeated=3, missing=1)] * 3
