"""The memory of a rank that reads for a long time."""

from __future__ import annotations

import json
import statistics

import pytest

PLANES = {
    "service": ("--data_plane", "tf_service", "--data_host_workers", 1),
    "feed": ("--data_plane", "feed", "--data_host_processes", 1),
}
GROWTH_BYTES = 10e6
"""Between the middles of two windows that are 500 steps of 262 kB apart: 8 % of the batches would be more."""


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.parametrize("reads", PLANES)
def test_memory_of_a_reader_does_not_grow(simulated, script, reads: str) -> None:
    words = ("--train_script", script("reads_many"), "--reads", reads)
    run = simulated(*PLANES[reads], *words, ranks=1, channels={})
    assert run.summary.exit_code == 0, run.summary.cause
    (path,) = run.output("memory.json")
    memory = json.loads(path.read_text())
    quarter = len(memory) // 4
    earlier, later = memory[2 * quarter : 3 * quarter], memory[-quarter:]
    assert statistics.median(later) - statistics.median(earlier) < GROWTH_BYTES
