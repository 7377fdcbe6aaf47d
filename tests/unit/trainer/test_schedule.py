from __future__ import annotations

import pytest

from tfhet.trainer.schedule import WarmUp


def test_the_rate_grows_from_one_ranks_to_all_ranks_over_the_warm_up():
    schedule = WarmUp(0.1, 8, 4.0)
    assert [schedule.at(epoch) for epoch in (0, 1, 2, 4, 90)] == pytest.approx([0.1, 0.275, 0.45, 0.8, 0.8])


def test_one_rank_needs_no_warm_up():
    assert {WarmUp(0.1, 1).at(epoch / 4) for epoch in range(20)} == {0.1}


@pytest.mark.parametrize("epochs", [0, -1.0])
def test_no_warm_up_gives_the_full_rate_at_once(epochs):
    assert WarmUp(0.1, 4, epochs).at(0) == pytest.approx(0.4)
