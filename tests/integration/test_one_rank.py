"""A job with one rank: a data host and a dnn host, without Horovod and MPI, on whatever TensorFlow there is."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.timeout(240)


def test_one_rank_learns_and_sees_each_once(simulated):
    arguments = ["--model", "small_cnn", "--chain", "digits", "--batch_size", 32, "--epochs", 2, "--warmup_epochs", 1]
    run = simulated(*arguments, ranks=1)
    assert run.summary.exit_code == 0, run.summary.cause
    assert (run.summary.mode, run.summary.ranks) == ("heterogeneous", 1)
    run.assert_each_example_once(1437, range(2))
    first, last = run.summary.epochs
    assert last["loss"] < first["loss"] and last["val_accuracy"] > 0.5
    assert len(list(run.hosts.glob("*/model/1/saved_model.pb"))) == 1
