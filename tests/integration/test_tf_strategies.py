"""Whole jobs whose scripts train by tf.distribute: several workers, all devices of a host, parameter servers."""

from __future__ import annotations

import json

import pytest
from keras_version import IS_KERAS_3, keras_2

from tfhet.simulate import GroupFile

pytestmark = [pytest.mark.timeout(300)]
EXAMPLES = 1437


def fits(run) -> list[dict]:
    """The results that each rank wrote at the end of its training."""
    assert run.summary.exit_code == 0, run.summary.cause
    assert set(run.summary.exit_codes.values()) == {0}
    paths = sorted(run.output("fit-*.json"), key=lambda path: path.name)
    assert [path.name for path in paths] == [f"fit-{rank}.json" for rank in range(run.summary.ranks)]
    return [json.loads(path.read_text()) for path in paths]


@keras_2
@pytest.mark.slow
def test_workers_train_one_model_on_every_example(simulated, script):
    words = ("--strategy", "multi_worker", "--train_script", script("multi_worker_fit"))
    run = simulated(*words, data=0, dnn=2, ranks=1)
    found = fits(run)
    assert [each["replicas"] for each in found] == [2] * 2
    assert len({each["digest"] for each in found}) == 1
    assert all(each["val"] == pytest.approx(each["whole"], rel=1e-5) for each in found)
    assert all(each["loss"][-1] < each["loss"][0] and each["val_accuracy"][-1] > 0.5 for each in found)
    epochs = [each for each in run.summary.epochs if each.get("expected") is not None]
    assert [(each["once"], each["repeated"], each["missing"], each["left"]) for each in epochs[:2]] == [
        (EXAMPLES, 0, 0, 0)
    ] * 2
    assert all(each["repeated"] == each["missing"] == 0 for each in epochs)
    for name, count in (("numbers", 64), ("held_out", 50)):  # what is distributed is not divided a second time
        assert sorted(number for each in found for number in each[name]) == list(range(count)), name


@pytest.mark.slow
def test_built_in_trainer_resumes_by_multi_worker(simulated, tmp_path):
    model = ("--model", "small_cnn", "--chain", "digits", "--batch_size", 32)
    for epochs, whole in ((1, [0]), (2, [1])):
        arguments = ("--strategy", "multi_worker", *model, "--epochs", epochs)
        run = simulated(*arguments, dnn=2, ranks=1, checkpoints=tmp_path)
        assert run.summary.exit_code == 0, run.summary.cause
        assert set(run.summary.exit_codes.values()) == {0}
        run.assert_each_example_once(EXAMPLES, whole)
        run.assert_equal_weights(2)


@keras_2
@pytest.mark.slow
def test_parameter_servers_have_their_own_group(simulated, script):
    groups = {"dnn_group": GroupFile(hosts=2, ranks=2), "ps_group": GroupFile(hosts=1)}
    run = simulated("--strategy", "parameter_server", "--train_script", script("parameter_server_fit"), groups=groups)
    assert run.summary.exit_code == 0, run.summary.cause
    assert set(run.summary.exit_codes.values()) == {0} and len(run.summary.exit_codes) == 3
    (path,) = run.output("chief.json")
    found = json.loads(path.read_text())
    assert sorted(number for share in found["shares"].values() for number in share) == list(range(60))
    assert found["loss"][-1] < found["loss"][0]
    assert run.summary.cluster["ps_group"]["role"] == "ps"


@pytest.mark.skipif(not IS_KERAS_3, reason="fit of Keras 2 works")
def test_fit_of_keras_3_is_refused_before_training(simulated, script):
    words = ("--strategy", "multi_worker", "--train_script", script("multi_worker_fit"))
    run = simulated(*words, data=0, dnn=2, ranks=1)
    assert run.summary.exit_code == 2 and "keras#20585" in run.summary.cause
