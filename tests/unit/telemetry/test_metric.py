"""telemetry/emf.py: lines that keep the schema of CloudWatch's embedded metric format."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, strategies as st

from tfhet.messages import MetricLine
from tfhet.telemetry import emf_line

UNITS = {
    "Count",
    "Count/Second",
    "Milliseconds",
    "Percent",
    "None",
}
"""The units of CloudWatch's MetricDatum that are used here."""
LINE = MetricLine(10, 0, 86.1, 1280.0, 3.1, 2.3)


def check(told: dict) -> None:
    """The rules of the specification, as far as its words go: the root, MetadataObject, MetricDirectiveObject,
    DimensionSet, MetricDefinitionObject, and the target members that they refer to."""
    about = told["_aws"]
    assert set(about) == {"Timestamp", "CloudWatchMetrics"}
    assert isinstance(about["Timestamp"], int) and not isinstance(about["Timestamp"], bool) and about["Timestamp"] > 0
    assert isinstance(about["CloudWatchMetrics"], list) and about["CloudWatchMetrics"]
    for directive in about["CloudWatchMetrics"]:
        assert set(directive) == {"Namespace", "Dimensions", "Metrics"}
        assert isinstance(directive["Namespace"], str) and 1 <= len(directive["Namespace"]) <= 1024
        assert isinstance(directive["Dimensions"], list) and directive["Dimensions"]
        for dimension_set in directive["Dimensions"]:
            assert isinstance(dimension_set, list) and len(dimension_set) <= 30
            assert len(set(dimension_set)) == len(dimension_set)
            for name in dimension_set:
                assert isinstance(name, str) and 1 <= len(name) <= 250
                assert isinstance(told[name], str) and 1 <= len(told[name]) <= 1024
        assert isinstance(directive["Metrics"], list) and 1 <= len(directive["Metrics"]) <= 100
        for metric in directive["Metrics"]:
            assert set(metric) <= {"Name", "Unit", "StorageResolution"}
            assert isinstance(metric["Name"], str) and 1 <= len(metric["Name"]) <= 1024
            assert metric.get("Unit", "None") in UNITS
            value = told[metric["Name"]]
            assert type(value) in (int, float) and math.isfinite(value)


def test_a_line_holds_the_numbers_and_who_says_them():
    who = {"training_job": "job", "group": "dnn_group", "host": "t1", "role": "dnn", "rank": "0"}
    told = json.loads(emf_line("tfhet", who, LINE, 1_700_000_000.1234))
    check(told)
    assert told["_aws"]["Timestamp"] == 1_700_000_000_123
    (directive,) = told["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "tfhet"
    assert directive["Dimensions"] == [["training_job", "group", "host", "role", "rank"]]
    assert {name: told[name] for name in told if name != "_aws"} == {**who, **LINE.numbers()}
    assert {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]} == {
        "step": "Count",
        "epoch": "Count",
        "step_ms": "Milliseconds",
        "examples_per_s": "Count/Second",
        "wait_pct": "Percent",
        "loss": "None",
    }


@pytest.mark.parametrize("loss", [None, math.nan, math.inf])
def test_a_loss_that_is_no_number_is_left_out(loss):
    text = emf_line("tfhet", {"host": "t1"}, MetricLine(10, 0, 86.1, 1280.0, 3.1, loss), 1.0)
    told = json.loads(text, parse_constant=pytest.fail)
    check(told)
    assert "loss" not in text


@given(
    st.dictionaries(st.sampled_from(["host", "group", "rank"]), st.text(min_size=1, max_size=20), min_size=1),
    st.builds(MetricLine, *[st.integers(0, 10**12)] * 2, *[st.floats(0, 1e300)] * 3, st.none() | st.floats()),
)
def test_every_line_keeps_the_schema_and_is_one_line(dimensions, line):
    text = emf_line("tfhet", dimensions, line, 1_700_000_000.0)
    assert len(text.splitlines()) == 1 and text.isascii()
    check(json.loads(text))
