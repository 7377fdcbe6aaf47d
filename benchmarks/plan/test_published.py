"""Published runs of others are predicted from their inputs."""

from __future__ import annotations

import pytest

from benchmarks.plan.published import aws_pytorch, aws_tensorflow, predictions, ray
from tfhet.plan import Resource

FOUND = {one.key: one for one in predictions()}


def test_aws_tensorflow_run_is_within_15_percent():
    assert FOUND["aws_tf"].error_pct < 15
    assert FOUND["aws_tf"].binding == Resource.ALL_CPUS.value
    assert FOUND["aws_tf_saving"].predicted.value == pytest.approx(46, abs=5)


@pytest.mark.parametrize("key", sorted(set(FOUND) - {"ray_saving"}))
def test_published_number_is_within_the_interval(key):
    """The interval of the saving with Ray is too wide to say anything."""
    assert FOUND[key].is_within, FOUND[key]


@pytest.mark.parametrize("run", [aws_tensorflow(), aws_pytorch(), ray()], ids=lambda run: run.key)
def test_homogeneous_step_is_predicted_as_published(run):
    from tfhet.plan import ClusterShape, Layout, predict

    found = predict(run.workload, ClusterShape(run.cluster.dnn), Layout())
    assert found.step_s.value == pytest.approx(run.before_s.value)
    assert found.binding is Resource.DNN_CPUS


@pytest.mark.parametrize("key", sorted(FOUND))
def test_prediction_lists_published_and_assumed_inputs(key):
    assert len(FOUND[key].assumptions) >= 4
    assert FOUND[key].assumptions[0].startswith("published: ")


def test_predictions_are_unchanged():
    """Changes of these numbers need a changed assumption, never the published result."""
    assert {key: round(one.predicted.value, 1) for key, one in FOUND.items()} == {
        "aws_tf": 82.0,
        "aws_tf_saving": 49.0,
        "aws_pytorch": 229.2,
        "aws_pytorch_saving": 71.6,
        "ray_saving": 21.0,
    }
    assert {key: (round(one.predicted.low), round(one.predicted.high)) for key, one in FOUND.items()} == {
        "aws_tf": (69, 92),
        "aws_tf_saving": (43, 57),
        "aws_pytorch": (166, 299),
        "aws_pytorch_saving": (63, 79),
        "ray_saving": (-58, 72),
    }
