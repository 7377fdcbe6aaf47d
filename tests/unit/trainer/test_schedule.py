from __future__ import annotations

import pytest

from tfhet.trainer.settings import Settings


def test_rate_grows_over_the_warm_up():
    settings = Settings(learning_rate=0.1, warmup_epochs=4.0)
    rates = [settings.learning_rate_at(epoch, 8) for epoch in (0, 1, 2, 4, 90)]
    assert rates == pytest.approx([0.1, 0.275, 0.45, 0.8, 0.8])


def test_one_rank_needs_no_warm_up():
    assert {Settings(learning_rate=0.1).learning_rate_at(epoch / 4, 1) for epoch in range(20)} == {0.1}


@pytest.mark.parametrize("epochs", [0, -1.0])
def test_no_warm_up_gives_the_full_rate(epochs):
    assert Settings(learning_rate=0.1, warmup_epochs=epochs).learning_rate_at(0, 4) == pytest.approx(0.4)
