"""The suite of a rank's memory: what its figures compare, and that a short run has them."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.memory.suite import EVERY, SUITE, WAYS, figures_of
from tfhet.errors import UsageError
from tfhet.events import ignore
from tfhet.units import MB


def test_growth_is_that_from_the_second_tenth_to_the_last():
    rss = [100 * MB] * 10 + [200 * MB] * 10 + [300 * MB] * 70 + [207 * MB] * 10
    figures = figures_of("feed", rss)
    assert figures["memory.feed.early_mb"].value == 200 and figures["memory.feed.late_mb"].value == 207
    assert figures["memory.feed.growth_mb"].value == 7


def test_fewer_steps_than_have_parts_are_refused():
    with pytest.raises(UsageError, match="--steps 999: give at least 1000"):
        SUITE.run(argparse.Namespace(steps=999), ignore, ())


@pytest.mark.slow
def test_a_short_run_measures_both_ways():
    record = SUITE.run(argparse.Namespace(steps=1000), ignore, ())
    for name in WAYS:
        assert len(record.details["runs"][name]["rss"]) == 1000 // EVERY
        assert record.figures[f"memory.{name}.late_mb"].value > 10
