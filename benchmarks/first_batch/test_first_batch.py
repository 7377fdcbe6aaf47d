"""The figures of `benchmarks.first_batch`, and the process that it times."""

from __future__ import annotations

import pytest

from benchmarks import child_environment
from benchmarks.first_batch import suite
from tfhet.errors import JobFailed
from tfhet.record import Record
from tfhet.source.photos import photos


def seconds(*values: float) -> list[dict[str, float]]:
    return [{"aws-cifar": value / 2, suite.CHAIN: value} for value in values]


def test_the_ratio_is_that_of_the_two_processes_of_a_round():
    figures = suite.figures_of({"wheel": seconds(4.2, 8.4, 4.2), "warm": seconds(4.0, 8.0, 4.0)})
    assert figures["first_batch.ratio"].samples == pytest.approx([1.05] * 3)
    assert suite.SUITE.is_kept(Record.of("first_batch", figures))
    slow = suite.figures_of({"wheel": seconds(4.8, 4.8), "warm": seconds(4.0, 4.0)})
    assert not suite.SUITE.is_kept(Record.of("first_batch", slow))


def test_the_process_makes_batches_and_says_where_its_kernels_are_from():
    found = suite.first_batch(photos(), child_environment())
    assert 0 < found["chains_s"]["aws-cifar"] < found["chains_s"][suite.CHAIN]
    assert found["from_wheel"] == []


def test_a_process_that_fails_is_told_with_its_last_lines():
    with pytest.raises(JobFailed, match="exit code 1") as raised:
        suite.first_batch(suite.ROOT, child_environment())
    assert any("ROOT" in line or str(suite.ROOT) in line for line in raised.value.log_tail)
