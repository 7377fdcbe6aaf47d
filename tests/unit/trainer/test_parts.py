"""Examples lost on the way are read again: ranks are threads, the data service deals batches as a test orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_clock import FakeClock
from fake_feed import FakeService, ServedFeed

from tfhet.errors import DataError, NotReady
from tfhet.pipeline import Rest
from tfhet.planes.tf_service.recovery import RENEWALS
from tfhet.strategies.solo import SoloCollective
from tfhet.trainer.audit import Audit
from tfhet.trainer.emulated import EmulatedAccelerator
from tfhet.trainer.loop import Begun, Loop
from tfhet.trainer.parts import MOST_EMPTY_PARTS, MOST_RESTARTS, Parts

SIZES = (10, 7, 0, 13, 6)
EXAMPLES = sum(SIZES)


def loop_of(service: Any, together: Any, **how: Any) -> Loop:
    feed = ServedFeed(service, together.rank, together.size)
    return Loop(feed, EmulatedAccelerator(0.0, together, FakeClock()), together, **how)


def left_after(service: Any, ids: list[int]) -> Rest:
    """The rest after an earlier run that saw these ids."""
    audit = Audit(ServedFeed(service).pipeline.source, SoloCollective())
    audit.saw(np.array(ids, np.int64))
    rest = audit.standing()
    assert rest is not None
    return rest


def seen_of(rest: Rest) -> int:
    return len(rest.seen.ids()) + sum(size for size, is_left in zip(SIZES, rest.splits, strict=True) if not is_left)


def counts(result: dict[str, Any]) -> tuple[int, ...]:
    return tuple(result[name] for name in ("before", "once", "repeated", "missing", "rereads"))


def on_ranks(each_rank: Any, size: int, service: Any, **how: Any) -> tuple[list[Loop], list[dict[str, Any]]]:
    """The loops after one epoch, and its results, by rank."""

    def run(together: Any) -> tuple[Loop, dict[str, Any]]:
        loop = loop_of(service, together, **how)
        return loop, loop.epoch(0)

    found = each_rank(size, run)
    return [loop for loop, _ in found], [result for _, result in found]


@pytest.mark.parametrize(
    ("ranks", "how", "rereads"),
    [
        (3, {}, 0),
        *((3, {"cuts": {0: cuts}}, 1) for cuts in ({0: 2, 1: 1, 2: 0}, {1: 0}, {2: 1})),
        (3, {"cuts": {0: {0: 2, 2: 0}}, "knows_sizes": False}, 1),
        (2, {"cuts": {part: {0: 1, 1: 1} for part in range(4)}}, 4),
        (2, {"lost": {0: (1, 4), 1: (0,)}}, 2),
    ],
)
def test_lost_examples_are_read_in_further_parts(each_rank, ranks, how, rereads):
    service = FakeService(SIZES, **how)
    loops, results = on_ranks(each_rank, ranks, service)
    assert all(result == results[0] for result in results)
    assert counts(results[0]) == (0, EXAMPLES, 0, 0 if service.knows_sizes else None, rereads)
    assert results[0]["examples"] == EXAMPLES
    assert len(service.offered) == 1 + rereads
    assert {loop.reader.agreed for loop in loops} == {len(service.cuts)}  # all ranks, whichever was cut off


def test_local_losses_are_missing_or_unknown():
    loop = loop_of(FakeService(SIZES, lost={0: (1,)}), SoloCollective())
    loop.reader.go_local()
    assert counts(loop.epoch(0)) == (0, EXAMPLES - 4, 0, 4, 0)
    loop = loop_of(FakeService(SIZES, lost={0: (1,)}, knows_sizes=False), SoloCollective())
    assert counts(loop.epoch(0)) == (0, EXAMPLES - 4, 0, None, 0)


def test_empty_parts_are_limited():
    service = FakeService((4, 4), lost={part: (0,) if part else (1,) for part in range(99)})
    assert counts(loop_of(service, SoloCollective()).epoch(0)) == (0, 4, 0, 4, MOST_EMPTY_PARTS)


def test_restarts_are_limited():
    service = FakeService(SIZES, cuts={part: {0: 0} for part in range(99)})
    with pytest.raises(NotReady, match=f"restarted {MOST_RESTARTS} times"):
        loop_of(service, SoloCollective()).epoch(0)
    assert len(service.offered) == MOST_RESTARTS


def test_restarts_of_a_returning_host_are_survived():
    """Its loss, each return of a worker, and the end of the one that was accepted: nothing is delivered meanwhile."""
    service = FakeService(SIZES, cuts={part: {0: 0} for part in range(RENEWALS + 2)})
    assert counts(loop_of(service, SoloCollective()).epoch(0))[:4] == (0, EXAMPLES, 0, 0)


def test_permanent_failure_is_the_error(monkeypatch):
    loop = loop_of(FakeService(SIZES, cuts={part: {0: 0} for part in range(99)}), SoloCollective())
    # What the feed notes when it is cut off by an error.
    monkeypatch.setattr(loop.reader, "agree", lambda: setattr(loop.reader, "failure", OSError("worker failure")))
    with pytest.raises(OSError, match="worker failure"):
        loop.epoch(0)


def test_cut_without_audit_is_an_error_or_continues():
    def loop() -> Loop:
        return loop_of(FakeService(SIZES, cuts={0: {0: 2}}), SoloCollective(), audit=False)

    with pytest.raises(DataError, match="--audit False"):
        loop().epoch(0)
    result = loop().epoch(0, steps=6)
    assert (result["steps"], result["examples"]) == (6, 24)


def test_passes_of_steps_see_every_example_once(each_rank):
    service = FakeService(SIZES, cuts={0: {0: 1}}, lost={1: (0,)})

    def run(together: Any) -> list[dict[str, Any]]:
        loop = loop_of(service, together)
        return [loop.epoch(epoch, steps=8) for epoch in range(3)]

    for results in each_rank(2, run):
        assert [result["steps"] for result in results] == [8] * 3
        ended = [result for result in results if "once" in result]
        assert ended
        for result in ended:
            assert result["once"] == result["expected"] > 0
            assert (result["missing"], result["repeated"]) == (0, 0)


def test_empty_source_is_an_error():
    with pytest.raises(DataError, match="no example in 2 splits"):
        loop_of(FakeService((0, 0)), SoloCollective()).epoch(0, steps=3)


def test_all_ranks_go_local_together(each_rank, capsys):
    service = FakeService(SIZES, cuts={0: {1: 1}}, serves=False)

    def run(together: Any) -> Loop:
        feed = ServedFeed(service, together.rank, together.size)
        accelerator = EmulatedAccelerator(0.0, together, FakeClock())
        loop = Loop(feed, accelerator, together)
        assert counts(loop.epoch(0)) == (0, EXAMPLES, 0, 0, 1)
        loop.agree()
        return loop

    loops = each_rank(3, run)
    assert [loop.reader.is_served for loop in loops] == [False] * 3
    assert capsys.readouterr().out.count("no data host is left") == 1


# What earlier runs did


def test_resumed_run_reads_only_unseen_examples(each_rank):
    service = FakeService(SIZES)
    seen = service.ids()[5:20]

    def run(together: Any) -> tuple[Loop, dict[str, Any]]:
        loop = loop_of(service, together, step=44)
        return loop, loop.epoch(3, begun=Begun(4, 3, left_after(service, seen)))

    for loop, result in each_rank(2, run):
        assert counts(result) == (15, EXAMPLES - 15, 0, 0, 0)
        assert result["steps"] == loop.step - 44
    assert sorted(service.offered[3, 0]) == sorted(set(service.ids()) - set(seen))


def test_resumed_complete_epoch_takes_no_step():
    service = FakeService(SIZES)
    loop = loop_of(service, SoloCollective(), step=9)
    result = loop.epoch(0, begun=Begun(9, 0, left_after(service, service.ids())))
    assert counts(result) == (EXAMPLES, 0, 0, 0, 0)
    assert (result["steps"], loop.step, service.offered) == (0, 9, {})


def test_steps_of_an_epoch_are_not_repeated():
    service = FakeService(SIZES)
    loop = loop_of(service, SoloCollective(), step=25)
    result = loop.epoch(2, steps=10, begun=Begun(5, 6, left_after(service, service.ids()[:4])))
    assert (result["steps"], loop.step) == (5, 30)
    assert list(service.offered) == [(6, 0)]  # the pass that was begun, whatever the epoch
    assert loop.epoch(3, steps=10)["steps"] == 10


# Told to stop


def stopping(each_rank: Any, at: int) -> tuple[FakeService, list[Loop], list[dict[str, Any]]]:
    """Rank 1 is told while it takes step `at`, counted from 0."""
    service = FakeService(SIZES, batch_size=2)

    def run(together: Any) -> tuple[Loop, dict[str, Any]]:
        asked = iter(range(99))
        told: Callable[[], bool] = lambda: together.rank == 1 and next(asked) >= at  # noqa: E731
        loop = loop_of(service, together, is_told_to_stop=told)
        return loop, loop.epoch(0)

    found = each_rank(3, run)
    return service, [loop for loop, _ in found], [result for _, result in found]


@pytest.mark.parametrize("at", [0, 1, 3])
def test_all_ranks_stop_after_the_same_step(each_rank, at: int):
    service, loops, results = stopping(each_rank, at)
    assert [loop.stopped for loop in loops] == [True] * 3
    assert {loop.step for loop in loops} == {at + 2}  # the vote of a step is read in the next one
    assert all(loop.begun.steps == at + 2 and loop.begun.number == 0 for loop in loops)
    rest = loops[0].begun.rest
    assert rest is not None and seen_of(rest) == results[0]["examples"] == results[0]["once"]
    assert all(loop.begun.rest is not None and not loop.begun.rest.seen.table.size for loop in loops[1:])
    assert counts(results[0])[:3] == (0, seen_of(rest), 0)
    assert len(service.offered) == 1


@pytest.mark.parametrize("at", [0, 2, 5, 6, 30])
def test_run_after_a_stop_sees_the_rest(each_rank, at: int):
    service, loops, results = stopping(each_rank, at)
    begun, service.offered = loops[0].begun, {}
    if not loops[0].stopped:
        assert results[0]["once"] == EXAMPLES
        return

    def run(together: Any) -> dict[str, Any]:
        return loop_of(service, together, step=begun.steps).epoch(0, begun=begun)

    (result, *_) = each_rank(2, run)  # another number of ranks
    assert result["before"] + result["once"] == EXAMPLES
    assert (result["before"], result["repeated"], result["missing"]) == (results[0]["once"], 0, 0)


def test_ranks_agree_to_stop_between_epochs(each_rank):
    def run(together: Any) -> tuple[bool, bool]:
        loop = loop_of(FakeService(SIZES), together, is_told_to_stop=lambda: together.rank == 2)
        return loop.agree_to_stop(), loop.stopped

    assert each_rank(3, run) == [(True, True)] * 3


def test_stopped_loop_takes_no_further_step():
    loop = loop_of(FakeService(SIZES), SoloCollective(), is_told_to_stop=lambda: True)
    loop.epoch(0, steps=9)
    assert loop.stopped and loop.step == 2
    assert loop.epoch(1, steps=9)["steps"] == 0


# Checkpoints in the middle


@pytest.mark.parametrize("steps", [0, 7])
@pytest.mark.parametrize("size", [1, 2])
def test_checkpoints_are_saved_at_exact_multiples(each_rank, steps: int, size: int):
    def run(together: Any) -> tuple[list[tuple[int, int, Begun]], Loop]:
        saved: list[tuple[int, int, Begun]] = []
        loop = loop_of(
            FakeService(SIZES, batch_size=2) if together.size == 1 else service,
            together,
            save_every=3,
            on_save=lambda epoch, begun: saved.append((epoch, loop.step, begun)),
        )
        for epoch in range(2):
            loop.epoch(epoch, steps)
        return saved, loop

    service = FakeService(SIZES, batch_size=2)
    for saved, loop in each_rank(size, run):
        assert [step for _, step, _ in saved] == list(range(3, loop.step + 1, 3))
        first = 0
        for epoch, step, begun in saved:
            first = first if epoch == 0 else loop.step // 2
            assert begun.steps == step - first
            assert begun.rest is not None
            if not steps and size == 1:
                assert seen_of(begun.rest) == min(EXAMPLES, 2 * begun.steps)


@pytest.mark.parametrize("steps", [0, 7])
def test_preparing_at_different_times_changes_no_step(each_rank, monkeypatch, steps: int):
    ahead = Parts.make_next_ready
    monkeypatch.setattr(Parts, "make_next_ready", lambda self: self.collective.rank or ahead(self))
    service = FakeService((4, 4, 4, 4))

    def run(together: Any) -> list[dict[str, Any]]:
        loop = loop_of(service, together)
        return [loop.epoch(epoch, steps, is_last=epoch == 1) for epoch in range(2)]

    one, other = each_rank(2, run)
    assert one == other
    assert sum(result["once"] for result in one) == (96 if steps else 32)
    assert sum(result["repeated"] + (result["missing"] or 0) for result in one) == 0
