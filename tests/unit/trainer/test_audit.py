from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tfhet.errors import DataError
from tfhet.pipeline import Rest
from tfhet.record import Visits
from tfhet.source import IdSet, example_id
from tfhet.strategies.solo import SoloCollective
from tfhet.trainer import audit as audits
from tfhet.trainer.audit import Audit


def source(*sizes: int, known: bool = True) -> Any:
    return SimpleNamespace(
        split_count=lambda: len(sizes),
        example_count=lambda: sum(sizes) if known else None,
        split_sizes=lambda: sizes if known else None,
    )


def numbers(*ids: int) -> np.ndarray:
    return np.array(ids, np.int64)


def left_after(ids: Any, *sizes: int, known: bool = True) -> Rest | None:
    """The rest after one rank that saw these ids."""
    audit = Audit(source(*sizes, known=known), SoloCollective())
    audit.saw(np.array(sorted(ids), np.int64))
    return audit.standing()


def visits(ids: Any, *sizes: int, before: Any = (), bad: Any = (), known: bool = True, rereads: int = 0) -> Visits:
    of = source(*sizes, known=known)
    audit = Audit(of, SoloCollective(), left_after(before, *sizes, known=known) if before else None, bad)
    audit.saw(np.array(ids, np.int64))
    audit.exchange()
    audit.rereads = rereads
    return audit.visits()


def test_visits_of_passes_are_added():
    first, second = visits([1, 2], 4), visits([1, 1, 2, 3], 4, rereads=2)
    assert Visits.total([first, second]) == Visits(8, 0, 6, 4, 1, 0, 3, 2)
    assert Visits.total([first, visits([1], 4, known=False)]).missing is None


def test_ids_count_after_the_exchange():
    audit = Audit(source(4), SoloCollective())
    assert audit.standing() is None
    audit.saw(numbers(1, 2))
    assert audit.visits().seen == audit.count == 0
    audit.exchange()
    audit.saw(numbers(3))
    assert audit.missing().tolist() == [0, 3]
    audit.exchange()
    audit.exchange()
    assert audit.missing().tolist() == [0] and audit.count == 3
    assert audit.visits().missing == 1


def test_whole_splits_need_their_sizes():
    with pytest.raises(DataError, match="sizes are not known"):
        Audit(source(2, 3, known=False), SoloCollective(), left_after([0, 1], 2, 3))


def test_only_rank_0_knows_a_served_rest(each_rank):
    def rank(together) -> tuple[list[int], list[int]]:
        audit = Audit(source(200_000, 9), together)
        audit.saw(np.arange(together.rank, 200_000, 40_000))
        audit.exchange()
        rests = audit.rest(True), audit.rest(False)
        return tuple([] if rest is None else rest.seen.ids().tolist() for rest in rests)  # type: ignore[return-value]

    seen = sorted(number + rank for number in range(0, 200_000, 40_000) for rank in range(3))
    assert each_rank(3, rank) == [(seen, seen), (seen, []), (seen, [])]


@pytest.mark.parametrize("has_alltoall", [False, True])
def test_many_ids_are_sent_in_parts(each_rank, monkeypatch, has_alltoall: bool):
    monkeypatch.setattr(audits, "MOST", 7)

    def rank(together) -> tuple[Visits, int]:
        sent: list[int] = []
        gather = together.gather
        together.gather = lambda values, name: (sent.append(len(values)), gather(values, name))[1]
        if has_alltoall:
            together.alltoall = lambda values, counts, name: alltoall(together, values, counts)
        audit = Audit(source(500), together)
        audit.saw(np.arange(together.rank * 100))
        audit.exchange()
        return audit.visits(), max(sent)

    for found, most in each_rank(3, rank):
        assert found == Visits(500, 0, 300, 100, 100, 0, 300, 0)
        assert most <= (7 if has_alltoall else 2 * 8 * 7 // 3)


SIZES = st.lists(st.one_of(st.integers(0, 6), st.just(66_000)), min_size=1, max_size=4)


@st.composite
def epochs(draw: st.DrawFn) -> dict[str, Any]:
    """Ranks, splits, what each rank is given in each of several parts, what earlier runs saw, what is bad."""
    sizes = draw(SIZES)
    near = [[*range(min(size, 6)), *range(65_530, min(size, 65_542))] for size in sizes]
    every = [example_id(split, place) for split, places in enumerate(near) for place in places]
    some = st.lists(st.sampled_from(every), max_size=12) if every else st.just([])
    ranks, parts = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    given = [[draw(some) for _ in range(ranks)] for _ in range(parts)]
    given[0][0] += draw(st.sampled_from([[], every]))  # often whole splits
    return {
        "sizes": sizes,
        "known": draw(st.booleans()),
        "alltoall": draw(st.booleans()),
        "given": given,
        "before": draw(st.one_of(st.none(), some, st.just(every))),
        "bad": draw(some),
    }


@given(epochs())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_counts_equal_a_simple_model(each_rank, epoch: dict[str, Any]):
    sizes, known, given = epoch["sizes"], epoch["known"], epoch["given"]
    before = None if epoch["before"] is None else left_after(epoch["before"], *sizes, known=known)
    earlier = set(epoch["before"] or ())

    def rank(together) -> list[Any]:
        if epoch["alltoall"]:
            together.alltoall = lambda values, counts, name: alltoall(together, values, counts)
        told = before if before is None or together.rank == 0 else Rest(np.ones(0, bool), IdSet.of())
        audit = Audit(source(*sizes, known=known), together, told, epoch["bad"])
        found: list[Any] = []
        for part in given:
            for at in range(0, len(part[together.rank]), 5):
                audit.saw(numbers(*part[together.rank][at : at + 5]))
            audit.exchange()
            rest, standing = audit.rest(True), audit.standing()
            found.append([audit.visits(), audit.missing().tolist() if known else None])
            found[-1] += [one and (one.splits.tolist(), one.seen.ids().tolist()) for one in (rest, standing)]
        return found

    results = each_rank(len(given[0]), rank)
    came: Counter[int] = Counter()
    for number, part in enumerate(given):
        for ids in part:
            came.update(ids)
        again = {one for one, count in came.items() if count > 1 or one in earlier}
        seen = earlier | set(came)
        lost = set(epoch["bad"]) - seen
        total = sum(sizes) if known else None
        visits = Visits(
            expected=total,
            before=len(earlier - again),
            seen=sum(came.values()),
            once=len(set(came) - again),
            repeated=len(again),
            bad=len(lost),
            missing=None if total is None else total - len(seen) - len(lost),
            rereads=0,
        )
        for place, result in enumerate(results):
            account, missing, rest, standing = result[number]
            assert account == visits
            read = sorted(seen | lost)
            counts = Counter(one >> 32 for one in read)
            left = [not known or counts[split] < size for split, size in enumerate(sizes)]
            expected = (left, [one for one in read if left[one >> 32]]) if any(left) else None
            assert rest == expected
            if known and sum(sizes) < 100:
                every = {example_id(split, place) for split, size in enumerate(sizes) for place in range(size)}
                assert missing == sorted(every - seen - lost)
            elif known:
                assert len(missing) == visits.missing and not set(missing) & (seen | lost)
            if before is None and not came:
                assert standing is None
                continue
            counts = Counter(one >> 32 for one in seen)
            left = [not known or counts[split] < size for split, size in enumerate(sizes)]
            assert standing[0] == left
            assert standing[1] == ([one for one in sorted(seen) if left[one >> 32]] if place == 0 else [])


def alltoall(together: Any, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """By gathering everything, as Horovod's does it without."""
    ends = np.cumsum(together.gather(counts, "counts"))
    parts = np.split(together.gather(values, "values"), ends[:-1])
    return np.concatenate(parts[together.rank :: together.size])
