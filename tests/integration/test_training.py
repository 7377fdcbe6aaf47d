"""The built-in trainer through whole clusters: it learns, sees each example once, and all ranks end alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.__main__ import main
from tfhet.profile import Cost, Profile
from tfhet.trainer.settings import Settings

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(240)]

MODEL = ["--model", "small_cnn", "--chain", "digits"]
LEARNING = [*MODEL, "--batch_size", 32, "--learning_rate", 0.001, "--warmup_epochs", 1]
SYNTHETIC = [*MODEL, "--export", False, "--checkpoint_every_epochs", 0]
EPOCHS = 7


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def learned(simulated, checkpoints: Path):
    """Two data hosts, two ranks, real digits."""
    return simulated(*LEARNING, "--epochs", EPOCHS, data=2, checkpoints=checkpoints)


def test_cluster_learns_and_sees_each_example_once(learned):
    summary = learned.summary
    assert summary.exit_code == 0, summary.cause
    assert set(summary.exit_codes.values()) == {0} and len(summary.exit_codes) == 4
    # Batches arrive in another order each time, so a single epoch may be worse.
    accuracies = [epoch["val_accuracy"] for epoch in summary.epochs]
    assert sorted(accuracies[-3:])[1] >= 0.9, accuracies
    assert summary.mode == "heterogeneous" and summary.ranks == 2
    assert {
        "random_rotation(factor=0.02)": "data_group",
        "rescale()": "trainer",
    }.items() <= summary.stages_where.items()
    learned.assert_each_example_once(1437, range(EPOCHS))
    learned.assert_equal_weights(2)


def test_learning_leaves_model_checkpoints_lines_and_plan(learned, checkpoints, capsys):
    assert len(list(learned.hosts.glob("*/model/1/saved_model.pb"))) == 1
    assert len(list(checkpoints.glob("checkpoint-*/manifest.json"))) == Settings().keep_checkpoints
    step = r"\[tfhet\] step=(\d+) epoch=(\d+) step_ms=[\d.]+ examples_per_s=[\d.]+ loss=[\d.]+ wait_pct=[\d.]+$"
    assert len(learned.found(step)) == learned.summary.steps // 10
    assert learned.folder.report_path.is_file()
    assert {event["event"] for event in learned.folder.events()} >= {"link.member_joined", "rank.ended", "job.decided"}
    profile = Profile("p", (Cost("read", (50.0,), bytes_per_example=3096, dtype="uint8", kind="Source"),)).record()
    profile.write(learned.folder.profile_path)
    assert main(["plan", "--run", str(learned.folder.path)]) == 0
    assert "1*ml.m5.large+2*ml.m5.large" in capsys.readouterr().out and learned.summary.cpu_ms.median > 0


@pytest.mark.slow
def test_training_resumes_on_another_cluster(simulated, learned, checkpoints):
    run = simulated(*LEARNING, "--epochs", EPOCHS + 1, data=0, checkpoints=checkpoints)
    assert run.summary.exit_code == 0, run.summary.cause
    assert run.found(r"resumed at epoch=(\d+) step=(\d+)") == [(str(EPOCHS), str(learned.summary.steps))]
    assert run.summary.mode == "homogeneous"
    run.assert_each_example_once(1437, [EPOCHS])
    run.assert_equal_weights(2)
    assert run.summary.metrics["val_accuracy"] >= 0.85  # from nothing, one epoch gives 0.7
    assert run.weights() != learned.weights()


@pytest.mark.slow
def test_unequal_ranks_without_data_hosts(simulated):
    # One split is read by one worker, whichever: 5 batches an epoch, so two ranks cannot have got the same number.
    arguments = ["--data", "synthetic:33:1", "--epochs", 3, "--batch_size", 8, "--dnn_host_workers", 1]
    run = simulated(*SYNTHETIC, *arguments, data=0, dnn=2, ranks=1)
    assert run.summary.exit_code == 0, run.summary.cause
    assert run.summary.mode == "homogeneous" and set(run.found(r"(tf_service) .*workers (2)")) == {("tf_service", "2")}
    assert set(run.summary.stages_where.values()) == {"dnn_group", "trainer"}
    assert sum(run.batches()) == 15 and run.batches()[0] != run.batches()[1]
    run.assert_each_example_once(33, range(3))
    run.assert_equal_weights(2)
