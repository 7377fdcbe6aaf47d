"""docs/grafana.json shows existing metrics, counters as rates and gauges as they are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tfhet.launch.output import labels
from tfhet.planes.tf_service.launcher_side import REGISTERED, RESTARTS, RUNNING
from tfhet.telemetry import METRICS

DASHBOARD = json.loads((Path(__file__).resolve().parents[3] / "docs" / "grafana.json").read_text())
EXPRESSIONS = [
    pytest.param(target["expr"], target["legendFormat"], id=panel["title"])
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]
BY_NAME = {metric.name: metric for metric in (*METRICS, RUNNING, REGISTERED, RESTARTS)}


def test_dashboard_shows_every_metric():
    queries = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    names = [set(re.findall(r"\btfhet_\w+", text)) for text in (*(param.values[0] for param in EXPRESSIONS), *queries)]
    assert set.union(*names) == set(BY_NAME)


@pytest.mark.parametrize(("expression", "legend"), EXPRESSIONS)
def test_counters_are_shown_as_rates(expression, legend, place_of):
    known = {*labels(place_of("t1", 0))}
    for name, given, span in re.findall(r"(tfhet_\w+)\{(.*?)\}(\[\$\w+\])?", expression):
        assert (BY_NAME[name].kind == "counter") == bool(span)
        assert bool(re.search(rf"(rate|increase)\({name}\b", expression)) == bool(span)
        assert set(re.findall(r"(\w+)[=!]", given)) == {"training_job"} <= known
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= known
    assert expression.count("(") == expression.count(")") and expression.count("{") == expression.count("}")
