"""Ranks whose gradients are not reduced fail with the cause; ranks that reduce in any way do not."""

from __future__ import annotations

import pytest

KERAS = ("--data_plane", "local", "--train_script")
TORCH = ("--strategy", "torch", *KERAS)
SHAPE = {"data": 0, "ranks": 2, "channels": {}}


@pytest.mark.horovod
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("how", "options", "code"),
    [
        ("reduced", (), 0),
        ("reduced", ("--loop",), 0),
        ("alone", (), 1),
        ("alone", ("--loop",), 1),
        ("alone", ("--epochs", "1"), 1),
        ("alone", ("--epochs", "1", "--loop"), 1),
        ("early", ("--loop",), 1),
        ("alone", ("--check_weights", "off"), 0),
    ],
)
def test_drift_of_keras_weights(simulated, script, how, options, code):
    run = simulated(*KERAS, script("drift_keras"), "--how", how, *options, **SHAPE)
    assert run.summary.exit_code == code, run.summary.cause
    assert code == 0 or "--check_weights" in run.summary.cause
    assert len(run.failures()) == code


@pytest.mark.torch
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("ddp", 0),
        ("fsdp", 0),
        ("zero", 0),
        ("uneven", 0),
        ("pipeline", 0),
        ("averaged", 0),
        ("wrapped", 1),
        ("alone", 1),
        ("early", 1),
    ],
)
def test_drift_of_torch_weights(simulated, script, how, code):
    run = simulated(*TORCH, script("drift_torch"), "--how", how, **SHAPE)
    assert run.summary.exit_code == code, run.summary.cause
    assert code == 0 or "--check_weights" in run.summary.cause
