"""Any chain of stages reads back from its text."""

from __future__ import annotations

import contextlib

from hypothesis import given, strategies as st

from tfhet import stages
from tfhet.errors import UsageError

numbers = st.floats(1e-6, 1e6, allow_nan=False)
any_stage = st.one_of(
    st.builds(stages.Dilate, size=st.integers(1, 99)),
    st.builds(
        stages.GaussianBlur,
        size=st.integers(1, 99),
        sigma=numbers,
        backend=st.sampled_from(["auto", "own", "addons"]),
        padding=st.sampled_from(["REFLECT", "SYMMETRIC"]),
    ),
    st.builds(stages.Rescale, scale=numbers, offset=st.floats(-1e6, 1e6)),
    st.sampled_from([stages.RandomFlip(), stages.RandomFlip(False, True), stages.RandomFlip(True, True)]),
    st.builds(stages.RandomRotation, factor=st.floats(0, 1)),
    st.builds(stages.RandomZoom, factor=st.floats(0, 1, exclude_max=True)),
)


def _holding(inner):
    """Stages that hold others."""
    chance = st.floats(0, 1)
    several = st.lists(inner, min_size=2, max_size=4).flatmap(
        lambda held: st.builds(
            stages.OneOf,
            st.just(tuple(held)),
            st.one_of(st.just(()), st.lists(numbers, min_size=len(held), max_size=len(held)).map(tuple)),
        )
    )
    return st.one_of(st.builds(stages.Probability, inner, chance), several)


nested_stage = st.recursive(any_stage, _holding, max_leaves=8)


@given(st.lists(nested_stage, max_size=4).map(tuple))
def test_any_chain_reads_back_from_its_text(chain):
    assert stages.parse(stages.text(chain)) == chain


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(UsageError):
        stages.parse(text)
