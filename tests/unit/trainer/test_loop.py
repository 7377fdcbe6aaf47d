from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_clock import FakeClock
from fake_feed import FakeFeed, FakeService, ServedFeed

from tfhet.messages import MetricLine
from tfhet.pipeline import Rest
from tfhet.source import IdSet
from tfhet.strategies.solo import SoloCollective
from tfhet.trainer.emulated import EmulatedAccelerator
from tfhet.trainer.loop import Begun, Loop
from tfhet.trainer.step import Batch


class Recording:
    """An accelerator that notes what it is asked for, and when its sums are read."""

    learns = True

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.idle_s, self.copied_s, self.allreduce_s = math.inf, 0.0, 0.0
        self._held = 0

    def accumulate(self, batch: Batch) -> None:
        self.calls.append(f"accumulate {len(batch[1])}")
        self._held += len(batch[1])

    def step(self, batch: Batch | None, stop: bool = False) -> Any:
        count = self._held + (0 if batch is None else len(batch[1]))
        self.calls.append(f"step {count}")
        self._held = 0
        return Sums(count, self.calls, stop)

    def evaluate(self, batch: Batch) -> Any:
        return len(batch[1]), 2.0 * len(batch[1]), 1.0


class Sums:
    """Examples, loss 0.5 each, one right answer, whether to stop."""

    def __init__(self, count: int, calls: list[str], stop: bool):
        self._count, self._calls, self._stop = count, calls, stop

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self._calls.append(f"read {self._count}")
        return np.array([self._count, 0.5 * self._count, 1.0 if self._count else 0.0, self._stop])


def printed(lines: list[str]) -> Callable[[MetricLine], None]:
    return lambda line: lines.append(str(line))


def steps_told(lines: list[str]) -> list[int]:
    return [int(found) for line in lines for found in re.findall(r" step=(\d+) ", line)]


def test_epoch_takes_and_counts_every_batch():
    loop = Loop(FakeFeed([4, 4, 2]), Recording(), SoloCollective())
    result = loop.epoch(3)
    assert result == {
        "epoch": 3,
        "steps": 3,
        "examples": 10,
        "loss": 0.5,
        "accuracy": 0.3,
        "expected": 10,
        "before": 0,
        "seen": 10,
        "once": 10,
        "repeated": 0,
        "bad": 0,
        "missing": 0,
        "rereads": 0,
    }
    assert (loop.step, loop.batches) == (3, 3)


def test_sums_are_read_one_step_late():
    accelerator = Recording()
    Loop(FakeFeed([4, 4, 2]), accelerator, SoloCollective()).epoch(0)
    assert accelerator.calls[:6] == ["step 4", "step 4", "read 4", "step 2", "read 4", "step 0"]
    # After the last example: a step to learn that all are dry, and the one that was begun before that was read.
    assert accelerator.calls[6:] == ["read 2", "step 0", "read 0", "read 0"]


def test_next_epoch_saves_the_empty_steps():
    accelerator = Recording()
    Loop(FakeFeed([4, 4, 2]), accelerator, SoloCollective()).epoch(0, is_last=False)
    assert accelerator.calls == ["step 4", "step 4", "read 4", "step 2", "read 4", "read 2"]


def test_repeated_example_does_not_replace_a_missing_one():
    service = FakeService((4, 4), lost={0: (1,)})
    service.twice = {0: (0,)}
    result = Loop(ServedFeed(service), Recording(), SoloCollective()).epoch(0, is_last=False)
    assert (result["once"], result["repeated"], result["missing"], result["rereads"]) == (4, 4, 0, 1)


def test_next_pass_is_prepared_once():
    feed = FakeFeed([4] * 4)
    loop = Loop(feed, Recording(), SoloCollective())
    loop.epoch(0, is_last=False)
    assert feed.made_ready == [1]
    loop.epoch(1, is_last=True)
    assert feed.made_ready == [1]
    feed = FakeFeed([4] * 4)
    loop = Loop(feed, Recording(), SoloCollective())
    loop.epoch(0, steps=3, is_last=False)
    loop.epoch(1, steps=5, is_last=True)
    assert feed.made_ready == [1]


def test_next_pass_is_prepared_before_the_end():
    clock = FakeClock()
    feed = FakeFeed([4] * 40, wait_s=2.0, clock=clock)
    taken: list[int] = []
    feed.ahead = lambda epoch, offers: taken.append(feed.given)
    Loop(feed, EmulatedAccelerator(0.0, SoloCollective(), clock), SoloCollective(), clock=clock).epoch(0, is_last=False)
    assert taken == [26]  # one step is begun while the sums of the one before are read


def test_batches_are_accumulated_in_groups():
    accelerator = Recording()
    loop = Loop(FakeFeed([4, 4, 4, 4, 1]), accelerator, SoloCollective(), accumulate=2)
    result = loop.epoch(0)
    asked = [call for call in accelerator.calls if not call.startswith("read")]
    assert asked == ["accumulate 4", "step 8", "accumulate 4", "step 8", "step 1", "step 0", "step 0"]
    assert (result["steps"], result["examples"], result["seen"]) == (3, 17, 17)
    assert loop.batches == 5


def test_metric_lines_count_over_epochs():
    lines: list[str] = []
    how = {"log_every": 10, "on_metrics": printed(lines), "step": 40}  # as in a training that was resumed
    loop = Loop(FakeFeed([4] * 9), Recording(), SoloCollective(), **how)
    for epoch in range(3):
        assert loop.epoch(epoch)["steps"] == 9
    assert loop.step == 67
    assert steps_told(lines) == [50, 60]
    assert [re.search(r"epoch=(\d+)", line)[1] for line in lines] == ["1", "2"]  # type: ignore[index]


def test_line_of_a_step_includes_that_step():
    clock, lines = FakeClock(), []  # type: ignore[var-annotated]
    feed = FakeFeed([4] * 4, wait_s=0.75, clock=clock)
    accelerator = EmulatedAccelerator(0.25, SoloCollective(), clock)
    loop = Loop(feed, accelerator, SoloCollective(), log_every=2, on_metrics=printed(lines), clock=clock)
    loop.epoch(0)
    # A step takes as long as its batch is waited for; a third of that, but for the first, the step before goes on.
    expected = "epoch=0 step_ms=750.0 examples_per_s=5.33 wait_pct="
    assert lines == [f"[tfhet] step=2 {expected}83.3", f"[tfhet] step=4 {expected}66.7"]
    assert loop.meter.examples_per_s() == pytest.approx(16 / 3)


def test_epoch_may_be_a_number_of_steps():
    feed, accelerator = FakeFeed([4, 4, 2]), Recording()
    loop = Loop(feed, accelerator, SoloCollective())
    results = [loop.epoch(epoch, steps=4) for epoch in range(2)]
    assert [result["steps"] for result in results] == [4, 4]
    assert [result["examples"] for result in results] == [14, 4 + 2 + 4 + 4]
    # Each pass is accounted for where it ends.
    assert [(result["expected"], result["once"], result["missing"]) for result in results] == [(10, 10, 0)] * 2
    calls = [call for call in accelerator.calls if not call.endswith(" 0")]
    assert sum(call.startswith("step") for call in calls) == sum(call.startswith("read") for call in calls) == 8
    assert (loop.step, feed.given) == (8, 8)


def test_step_is_measured_in_parts():
    clock = FakeClock(100.0)

    class Slow(Recording):
        """Copies for 1/16 s and sums for 1/8 s of each second."""

        def step(self, batch: Batch | None, stop: bool = False) -> Any:
            clock.sleep(1.0)
            self.copied_s += 0.0625
            self.allreduce_s = 0.125
            return super().step(batch, stop)

    loop = Loop(FakeFeed([4, 4], wait_s=0.25, clock=clock), Slow(), SoloCollective(), clock=clock, step=40)
    loop.epoch(3)
    first, second = loop.meter.steps
    assert (first.at_s, first.step, first.epoch, first.dur_s) == (100.0, 41, 3, 1.25)
    assert (second.at_s, second.step, second.epoch, second.dur_s) == (101.25, 42, 3, 1.25)
    parts = [(step.wait_s, step.copy_s, step.compute_s, step.allreduce_s) for step in loop.meter.steps]
    assert parts == [(0.25, 0.0625, 0.8125, 0.125)] * 2


def test_allreduce_is_limited_or_unknown():
    for told, expected in ((float("nan"), None), (9.0, 0.5), (-1.0, 0.0)):
        clock = FakeClock()
        accelerator = Recording()
        accelerator.allreduce_s = told
        loop = Loop(FakeFeed([4], wait_s=0.5, clock=clock), accelerator, SoloCollective(), clock=clock)
        loop.epoch(0)
        assert [step.allreduce_s for step in loop.meter.steps] == [expected]


def test_validation_is_a_pause():
    clock = FakeClock(5.0)
    loop = Loop(FakeFeed([4]), Recording(), SoloCollective(), clock=clock)
    loop.evaluate(FakeFeed([4, 4], wait_s=0.5, clock=clock))
    assert [(each.name, each.at_s, each.dur_s) for each in loop.meter.pauses] == [("validation", 5.0, 1.0)]


def test_learning_rate_follows_the_epoch():
    heard: list[float] = []
    Loop(FakeFeed([4] * 4), Recording(), SoloCollective(), set_epoch=heard.append).epoch(2)
    assert heard[:4] == [2.0, 2.25, 2.5, 2.75]
    assert set(heard[4:]) == {3.0}
    heard.clear()
    loop = Loop(FakeFeed([4] * 4), Recording(), SoloCollective(), set_epoch=heard.append)
    for epoch in range(2):
        loop.epoch(epoch, steps=2)
    assert heard == [0.0, 0.5, 1.0, 1.5]


def test_empty_epochs_and_unknown_counts():
    assert "loss" not in Loop(FakeFeed([4]), EmulatedAccelerator(0.0, SoloCollective()), SoloCollective()).epoch(0)
    loop = Loop(FakeFeed([]), Recording(), SoloCollective())
    result = loop.epoch(0)
    assert (result["steps"], result["examples"], result["seen"], result["missing"]) == (0, 0, 0, 0)
    assert "loss" not in result and loop.meter.step_ms() is None
    result = Loop(FakeFeed([4, 4], examples=-1), Recording(), SoloCollective()).epoch(0)
    assert (result["expected"], result["missing"], result["seen"]) == (None, None, 8)


def test_epoch_end_is_reported_once():
    ends: list[int] = []
    loop = Loop(FakeFeed([4]), Recording(), SoloCollective(), on_epoch_end=lambda: ends.append(1), audit=False)
    assert "seen" not in loop.epoch(0)
    loop.epoch(1, steps=2)
    assert len(ends) == 2


def test_validation_is_averaged_over_its_examples():
    loop = Loop(FakeFeed([]), Recording(), SoloCollective())
    assert loop.evaluate(FakeFeed([4, 1])) == {"val_loss": 2.0, "val_accuracy": 2 / 5}
    assert loop.evaluate(FakeFeed([])) == {}


# Several ranks

SHARES = ([4, 4, 4, 4, 1], [4, 3], [])
"""Batches of each rank; the third is dry from the start."""


def unequal(together: Any) -> tuple[Loop, list[dict], list[str]]:
    lines: list[str] = []
    feed = FakeFeed(SHARES[together.rank], first_id=100 * together.rank, examples=sum(map(sum, SHARES)))
    accelerator = EmulatedAccelerator(0.0, together, FakeClock())
    loop = Loop(feed, accelerator, together, log_every=1, on_metrics=printed(lines))
    return loop, [loop.epoch(epoch) for epoch in range(2)], lines


def test_unequal_ranks_take_the_same_steps(each_rank):
    found = each_rank(3, unequal)
    assert [steps_told(lines) for _, _, lines in found] == [list(range(1, 11)), [], []]  # rank 0 alone prints
    for loop, results, _ in found:
        assert sum(step.examples for step in loop.meter.steps) == 2 * 24
        assert len(loop.meter.steps) == 10
        assert [(r["steps"], r["examples"]) for r in results] == [(5, 24), (5, 24)]
        assert [(r["once"], r["missing"], r["repeated"]) for r in results] == [(24, 0, 0)] * 2
        assert loop.step == 10
    assert [loop.batches for loop, _, _ in found] == [10, 4, 0]


def test_rank_without_servers_prepares_its_own_data():
    reader = FakeFeed([4])
    reader.is_served = True
    loop = Loop(reader, Recording(), SoloCollective())
    loop.agree()
    assert reader.is_served
    reader.serving = False
    loop.agree()
    assert not reader.is_served


def test_resumed_at_the_end_of_an_epoch():
    begun = Begun(steps=2, number=7, rest=Rest(np.ones(1, bool), IdSet.of(range(5))))
    loop = Loop(FakeFeed([4, 4]), Recording(), SoloCollective(), step=40)
    result = loop.epoch(3, steps=2, begun=begun)
    assert (result["steps"], loop.step, loop.begun) == (0, 40, begun)


def test_closing_ends_the_reading():
    closed: list[int] = []

    class Feed(FakeFeed):
        def epoch(self, *which: Any) -> Any:
            try:
                yield from super().epoch(*which)
            finally:
                closed.append(1)

    loop = Loop(Feed([4, 4, 4]), Recording(), SoloCollective())
    loop.epoch(0, steps=1)
    assert not closed
    loop.close()
    assert closed == [1]
