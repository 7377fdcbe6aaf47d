"""PyTorch that trains on batches of tf.data service: it needs both frameworks."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch


def test_tf_data_example_trains_alike_on_all_ranks(simulated, repository):
    script = repository / "examples" / "torch-tfdata" / "train.py"
    run = simulated("--strategy", "torch", "--train_script", script, data=1, ranks=2)
    assert run.summary.exit_code == 0, run.summary.cause
    found = run.found(r"rank=(\d) steps=(\d+) windows=(.*) weights=(\w+)")
    assert sorted((rank, steps, windows) for rank, steps, windows, _ in found) == [
        (rank, "40", "(32, 2, 3072)") for rank in ("0", "1")
    ]
    assert len({weights for *_, weights in found}) == 1
    assert run.summary.wait_pct is not None
