"""The loop of rounds that suites share."""

from __future__ import annotations

import pytest
from fake_clock import FakeClock

from tfhet.bench.harness import in_rounds
from tfhet.errors import JobFailed
from tfhet.events import Event


def test_cases_take_turns_and_the_warm_up_is_told_and_does_not_count() -> None:
    clock, told = FakeClock(), list[Event]()

    def once(number: int) -> int:
        clock.sleep(2.0)
        return number

    cases = {"a": once, "b": lambda number: 10 * number}
    taken = in_rounds(
        cases, lambda name, given: f"{name}{given}", warmup=1, repeats=2, observer=told.append, clock=clock
    )
    assert taken == {"a": [1, 2], "b": [10, 20]}
    assert [event.fields["said"] for event in told] == [["a0"], ["b0"], ["b10"], ["a1"], ["a2"], ["b20"]]
    assert [event.fields["seconds"] for event in told] == [2.0, 0.0, 0.0, 2.0, 2.0, 0.0]
    assert (told[-1].fields["round"], told[-1].fields["rounds"]) == (3, 3)


def test_what_a_case_raises_ends_the_rounds() -> None:
    def fails(number: int) -> None:
        raise JobFailed("no")

    with pytest.raises(JobFailed, match="no"):
        in_rounds({"a": fails}, lambda *_: "", warmup=0, repeats=1, observer=lambda event: None)
