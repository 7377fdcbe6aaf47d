"""The passes of a coordinator: what stays for a slow rank, and what goes."""

import threading
from collections.abc import Callable

import pytest

from tfhet.clock import SYSTEM
from tfhet.errors import NotReady
from tfhet.planes.ray import coordinator, private
from tfhet.planes.ray.coordinator import Coordinator, Over, Portion


def until(happened: Callable[[], object]) -> None:
    end_s = SYSTEM.monotonic() + 20
    while not happened():
        assert SYSTEM.monotonic() < end_s, "it did not happen within 20 s"
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


def test_a_pass_stays_until_every_rank_has_begun_a_later_one(deals):
    for number in range(4):
        deals.begin(number, [f"{number}{at}" for at in range(4)])
        assert [block(deals.batch(number, 0, at)) for at in range(2)] == [f"{number}0", f"{number}2"]
        assert deals.batch(number, 0, 2) == Over(0, 4)
    for number in (0, 1):
        assert [block(deals.batch(number, 1, at)) for at in range(2)] == [f"{number}1", f"{number}3"]
        assert deals.batch(number, 1, 2) == Over(0, 4)
    assert list(deals._passes) == [1, 2, 3]


def test_a_pass_that_is_gone_is_an_error_and_not_asked_for_again(deals):
    for number in range(3):
        deals.begin(number, ["a", "b"])
    for rank in (0, 1):
        assert isinstance(deals.batch(2, rank, 0), Portion)
    with pytest.raises(NotReady, match="pass 1 .* is gone"):
        deals.batch(1, 1, 0)


def test_an_epoch_that_is_left_early_does_not_hold_up_the_next_one(monkeypatch):
    goes_on = threading.Event()

    def blocks(dataset):
        if dataset == "slow":
            goes_on.wait(20)
        yield from ((name, 0, 1) for name in "ab")

    monkeypatch.setattr(private, "blocks", blocks)
    deals = Coordinator(2, 1, True, False)
    deals.begin(0, "slow")
    deals.begin(1, "quick")
    assert not goes_on.is_set()
    assert [block(deals.batch(1, rank, 0)) for rank in (0, 1)] == ["a", "b"]
    goes_on.set()
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "pass"])
    assert list(deals._passes) == [1]


def test_what_a_task_raised_is_the_answer_to_every_rank_also_after_the_next_epoch_has_begun(monkeypatch):
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


def test_a_rank_asks_again_where_nothing_comes(deals, monkeypatch):
    monkeypatch.setattr(coordinator, "ANSWER_S", 0.05)
    assert deals.batch(0, 1, 0) is None
