"""Metrics of a training script, and lines in CloudWatch's embedded metric format."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, strategies as st

from tfhet.messages import MetricLine
from tfhet.telemetry import emf_line

LINE = MetricLine(10, 2, 86.1, 1280.0, 3.1, 2.3)


def check(content: dict) -> None:
    """The rules of the specification for the objects that tfhet writes."""
    root = content["_aws"]
    assert set(root) == {"Timestamp", "CloudWatchMetrics"}
    assert type(root["Timestamp"]) is int and root["Timestamp"] > 0
    (directive,) = root["CloudWatchMetrics"]
    assert set(directive) == {"Namespace", "Dimensions", "Metrics"} and 1 <= len(directive["Namespace"]) <= 1024
    (names,) = directive["Dimensions"]
    assert len(names) <= 30 and len(set(names)) == len(names)
    for name in names:
        assert 1 <= len(name) <= 250 and 1 <= len(content[name]) <= 1024
    assert 1 <= len(directive["Metrics"]) <= 100
    for metric in directive["Metrics"]:
        assert set(metric) == {"Name", "Unit"}
        assert metric["Unit"] in {"Count", "Count/Second", "Milliseconds", "Percent", "None"}
        value = content[metric["Name"]]
        assert type(value) in (int, float) and math.isfinite(value)


@pytest.mark.parametrize("loss", [2.3, None, math.nan, math.inf])
def test_emf_line_has_numbers_and_dimensions(loss):
    dimensions = {"training_job": "job", "group": "dnn_group", "host": "t1", "role": "dnn", "rank": "0"}
    line = MetricLine(10, 0, 86.1, 1280.0, 3.1, loss)
    content = json.loads(emf_line("tfhet", dimensions, line, 1_700_000_000.1234), parse_constant=pytest.fail)
    check(content)
    root = content.pop("_aws")
    assert root["Timestamp"] == 1_700_000_000_123
    (directive,) = root["CloudWatchMetrics"]
    assert (directive["Namespace"], directive["Dimensions"]) == ("tfhet", [list(dimensions)])
    units = {"step": "Count", "epoch": "Count", "step_ms": "Milliseconds", "examples_per_s": "Count/Second"}
    units |= {"wait_pct": "Percent"} | ({"loss": "None"} if loss == 2.3 else {})
    assert {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]} == units
    assert content == {**dimensions, **{name: line.numbers()[name] for name in units}}


@given(
    st.dictionaries(st.sampled_from(["host", "group", "rank"]), st.text(min_size=1, max_size=20), min_size=1),
    st.builds(MetricLine, *[st.integers(0, 10**12)] * 2, *[st.floats(0, 1e300)] * 3, st.none() | st.floats()),
)
def test_every_emf_line_keeps_the_schema(dimensions, line):
    text = emf_line("tfhet", dimensions, line, 1_700_000_000.0)
    assert len(text.splitlines()) == 1 and text.isascii()
    check(json.loads(text))
