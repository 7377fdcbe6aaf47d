from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from tfhet.record import ClockOffset, Entry, HostUsage, Pause, StepTime, UsageSample
from tfhet.record.entry import entry_line, parse_entry

MOST = 1e15

STEP = StepTime(0.5, 0.125, 0.0, 0.0625, 0.25, 1700000000.25, 12, 1, 3, "algo-1")
SOME: list[Entry] = [
    STEP,
    replace(STEP, allreduce_s=None),
    Pause(host="algo-1", rank=0, name="checkpoint", at_s=1700000000.25, dur_s=2.0),
    UsageSample("algo-2", 1700000000.25, 1.0, "algo-2", {"launcher": 0.0, "worker-0": 0.75}),
    UsageSample(
        "algo-2", 1.0, 1.0, "algo-2", {}, HostUsage(1.5, 4, "cgroup", 1 << 30, 10.5, 20.5, (50.0, 0.0), (1024, 0))
    ),
    ClockOffset("algo-2", 1700000000.25, 0.0, -0.25, 0.125),
]

seconds = st.floats(0, MOST).map(lambda value: round(value, 7))
texts = st.text(max_size=5)
whole = st.integers(0, int(MOST))
uses = st.builds(
    HostUsage, seconds, seconds, texts, seconds, seconds, seconds, st.lists(seconds, max_size=2).map(tuple)
)
entries = st.one_of(
    st.builds(StepTime, *[seconds] * 4, st.none() | seconds, seconds, whole, whole, whole, texts),
    st.builds(Pause, texts, seconds, seconds, whole, texts),
    st.builds(
        UsageSample, texts, seconds, seconds, texts, st.dictionaries(texts, seconds, max_size=2), st.none() | uses
    ),
    st.builds(ClockOffset, texts, seconds, seconds, seconds.map(lambda value: -value) | seconds, seconds),
)


@given(entries)
def test_an_entry_comes_back_from_its_line(entry):
    assert parse_entry(entry_line(entry)) == entry


@pytest.mark.parametrize("entry", SOME, ids=lambda entry: type(entry).__name__)
def test_a_line_that_was_cut_short_is_no_entry(entry):
    text = entry_line(entry)
    assert [at for at in range(len(text) - 1) if parse_entry(text[:at]) is not None] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "stop"},
        {"kind": []},
        {"host": 3},
        {"rank": 0.5},
        {"at_s": "now"},
        {"at_s": True},
        {"dur_s": 10**400},
        {"wait_s": None},
        {"copy_s": [0.5]},
        {"allreduce_s": {}},
    ],
    ids=str,
)
def test_a_line_with_a_field_that_does_not_fit_is_no_entry(changes):
    values = json.loads(entry_line(SOME[0]))
    assert parse_entry(json.dumps(values)) == SOME[0]
    assert parse_entry(json.dumps({**values, **changes})) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "null", "{}", '{"kind": "span"}', '{"kind": "span", "host": NaN}', "["]
)
def test_what_is_none_of_ours_is_no_entry(text):
    assert parse_entry(text) is None


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from(SOME), st.dictionaries(st.sampled_from(["kind", *vars(SOME[0]), *vars(SOME[4])]), anything))
def test_whatever_stands_in_a_line_it_is_an_entry_that_can_be_written_or_none(entry, changes):
    found = parse_entry(json.dumps({**json.loads(entry_line(entry)), **changes}))
    assert (
        found is None or parse_entry(json.dumps(json.loads(entry_line(found), parse_constant=pytest.fail))) is not None
    )


def test_a_field_that_a_later_version_adds_is_left_out():
    values = json.loads(entry_line(SOME[0]))
    assert parse_entry(json.dumps({**values, "colour": "red"})) == SOME[0]


@pytest.mark.parametrize(
    ("step", "compute_s"),
    [
        (STEP, 0.5 - 0.125 - 0.0625 - 0.25),
        (replace(STEP, allreduce_s=None), 0.5 - 0.125 - 0.0625),
        (replace(STEP, wait_s=0.5, copy_s=0.5), 0.0),
    ],
)
def test_compute_is_the_rest_of_a_step(step, compute_s):
    assert step.compute_s == compute_s
