from __future__ import annotations

import numpy as np
import pytest

from tfhet.launch.agreement import Agreement
from tfhet.messages import rank, sample
from tfhet.schema import MessageError

RNG = np.random.default_rng(0)
SAME = RNG.normal(size=(16, 32)).astype(np.float32)
STEPS = ((0, 0), (0, 20), (0, 24), (0, 120))


def weights(values, step=(0, 20), is_maybe_part=False, model="keras-0"):
    return rank.Weights(model, "reduce", *step, sample.packed(np.asarray(values, np.float32)), is_maybe_part)


def other(agreeing: int = 0):
    """Other values, but in `agreeing` tensors."""
    found = RNG.normal(size=SAME.shape).astype(np.float32)
    found[:agreeing] = SAME[:agreeing]
    return found


@pytest.mark.parametrize(
    ("at", "is_maybe_part", "drifts"),
    [
        ([SAME, other(), other()], False, True),
        ([other(), other(), other()], False, True),
        ([SAME, other(), other()], True, True),
        ([other(), other(), other()], True, False),
        ([SAME, SAME, SAME], False, False),
        ([other(), SAME, other(), SAME], False, False),
        ([other(), other()], False, False),
        ([SAME, other(2), other(2)], False, True),
        ([SAME, other(4), other(4)], False, False),
        ([SAME, SAME * (1 + 1e-6), SAME * (1 + 1e-6)], False, False),
    ],
    ids=[
        "apart", "apart from the start", "parts that were equal", "parts", "equal", "equal in between",
        "before the broadcast", "frozen layers", "shared layers", "rounding",
    ],
)  # fmt: skip
def test_drift_is_found_in_two_comparisons(at, is_maybe_part, drifts):
    agreement, found = Agreement(2), []
    for step, values in zip(STEPS, at, strict=False):
        assert agreement.add(0, weights(SAME, step, is_maybe_part)) is None
        found.append(agreement.add(1, weights(values, step, is_maybe_part)))
    assert any(found) is drifts and not any(found[:-1])


def test_two_ranks_that_agree_show_reduction():
    agreement = Agreement(4)
    for step in STEPS:
        one, two = other(), other()
        assert not any(
            agreement.add(number, weights(values, step)) for number, values in enumerate([one, two, one, two])
        )


def test_ranks_far_apart_are_compared():
    agreement, steps = Agreement(2), [(epoch, step) for epoch in range(12) for step in (1, 24, 120)]
    assert not any(agreement.add(0, weights(SAME, step)) for step in steps)
    assert any(agreement.add(1, weights(other(), step)) for step in steps)


def test_step_that_a_rank_lacks_is_skipped():
    agreement = Agreement(2)
    for epoch in range(100):
        assert agreement.add(0, weights(SAME, (epoch, 1))) is None
        assert agreement.add(0, weights(SAME, (epoch, 20))) is None
        assert agreement.add(1, weights(SAME, (epoch, 1))) is None
    assert agreement.add(1, weights(other(), (100, 1))) is None


def test_other_models_are_not_compared():
    agreement = Agreement(2)
    for step in STEPS:
        assert agreement.add(0, weights(SAME, step)) is None
        assert agreement.add(1, weights(other(), step, model="keras-1")) is None


def test_not_a_number_on_all_ranks_agrees():
    agreement, broken = Agreement(2), SAME * np.nan
    assert not any(agreement.add(number, weights(broken, step)) for step in STEPS for number in (0, 1))


@pytest.mark.parametrize("text", ["", "1", "1:", "0:", "2:AAAA", "-2:AAAAAA==", "x:AAAA", "1:?", "9" * 30 + ":AAAA"])
def test_wrong_samples_are_refused(text):
    with pytest.raises(MessageError):
        sample.unpacked(text)


def test_ranks_with_other_shapes_are_refused():
    agreement = Agreement(2)
    agreement.add(0, weights(SAME))
    with pytest.raises(MessageError):
        agreement.add(1, weights(SAME[:2]))
