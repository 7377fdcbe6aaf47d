"""The recipes of docs/pytorch-recipes.md: training frameworks on two ranks that read from a data host."""

from __future__ import annotations

import importlib.util

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

EXAMPLES, VALIDATION = 1437, 360


@pytest.mark.parametrize(
    ("framework", "epochs", "batch_size", "least_accuracy"),
    [("lightning", 2, 32, 0.7), ("transformers", 2, 32, 0.3), ("accelerate", 2, 16, 0.7), ("timm", 2, 32, 0.6)],
)
def test_recipe_trains_and_validates(framework, epochs, batch_size, least_accuracy, simulated, repository):
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed: scripts/test --torch has it")
    script = repository / "examples" / "torch-recipes" / f"train_{framework}.py"
    words = ("--strategy", "torch", "--data_plane", "feed", "--data_host_processes", 2, "--train_script", script)
    run = simulated(*words, data=1, ranks=2, channels={}, max_run_s=280.0)
    assert run.summary.exit_code == 0, run.summary.cause
    found = {rank: rest for rank, *rest in run.found(r"rank=(\d)\D.*trained=(\d+) validated=(\S+)(?: of (\d+))?")}
    assert sorted(found) == ["0", "1"]
    (_, accuracy, seen), (_, other, _) = found.values()
    assert accuracy == other and float(accuracy) > least_accuracy, "of all ranks"
    assert seen in (None, str(VALIDATION))
    batches = -(-EXAMPLES // batch_size)
    left = (EXAMPLES - 1) % batch_size + 1 if batches % 2 else 0  # the last batch, if a rank would get one more
    assert sum(int(trained) for trained, *_ in found.values()) == epochs * (EXAMPLES - left)
    assert [(epoch["expected"], epoch["repeated"]) for epoch in run.summary.epochs] == [(EXAMPLES, 0)] * epochs
    assert run.summary.steps == epochs * (batches // 2)
