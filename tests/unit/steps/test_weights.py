from __future__ import annotations

import numpy as np
import pytest

from tfhet.messages import rank, sample
from tfhet.steps.weights import ELEMENTS, MOST_TENSORS, Sample, WeightChecks, chosen, is_due, positions


class Sent(list):
    def send(self, message, limit_s=0.0):
        self.append(message)


class Owner:
    pass


def take():
    return Sample([(2, 3)], np.ones([1, ELEMENTS]))


def run(checks, owner, steps):
    for _ in range(steps):
        checks.count(owner)
        checks.look(owner, "keras", take)


def test_samples_are_due_in_each_early_pass():
    assert [step for step in range(5000) if is_due(0, step)] == [0, 20, 24, 120, 1200, 2400, 3600, 4800]
    assert [step for step in range(1300) if is_due(3, step)] == [1, 20, 24, 120, 1200]
    assert not any(is_due(13, step) for step in range(1300)) and is_due(24, 1)


def test_passes_without_steps_do_not_count():
    sent = Sent()
    checks, owner = WeightChecks(sent), Owner()
    checks.begin_pass()
    checks.begin_pass()
    run(checks, owner, 21)
    checks.begin_pass()
    run(checks, owner, 2)
    assert [(each.epoch, each.step) for each in sent] == [(0, 20), (1, 1)]
    assert sample.unpacked(sent[0].values).shape == (1, ELEMENTS)


@pytest.mark.parametrize("failure", [lambda: None, lambda: 1 / 0])
def test_weights_without_a_sample_are_left_alone(failure):
    sent = Sent()
    checks, owner = WeightChecks(sent), Owner()
    checks.look(owner, "torch", failure)
    checks.look(owner, "torch", take)
    assert sent == []


def test_owners_are_limited_and_named_by_shapes():
    sent = Sent()
    checks, owners = WeightChecks(sent), [Owner() for _ in range(20)]
    for owner in owners:
        checks.look(owner, "loop", take)
    assert len({each.model for each in sent}) == len(sent) < 20
    assert all(isinstance(each, rank.Weights) for each in sent)


@pytest.mark.parametrize("size", [1, 2, 31, 1000, 3 * 2**33])
def test_positions_are_spread(size):
    found = positions(size)
    assert found.shape == (ELEMENTS,) and found.min() >= 0 and found.max() < size
    assert len({*found.tolist()}) == min(size, ELEMENTS)


def test_tensors_of_all_shapes_are_chosen():
    experts, shared = [(64, 256)] * 500, [(64,), (10, 64), (64, 64)]
    found = chosen([*experts, *shared])
    assert len(found) <= MOST_TENSORS and {500, 501, 502} <= {*found}
    assert chosen([]) == [] and chosen([(1,)] * 3) == [0, 1, 2]
