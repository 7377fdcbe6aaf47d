"""docs/grafana.json shows numbers that there are, as what they are, in panels that do not hide each other."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tfhet.launch.output import labels
from tfhet.planes.tf_service.launcher_side import REGISTERED, RESTARTS, RUNNING
from tfhet.telemetry import METRICS

DASHBOARD = json.loads((Path(__file__).resolve().parents[3] / "docs" / "grafana.json").read_text())
EXPRESSIONS = [
    (panel["title"], target["expr"], target["legendFormat"])
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]
BY_NAME = {metric.name: metric for metric in (*METRICS, RUNNING, REGISTERED, RESTARTS)}


def names(expression: str) -> set[str]:
    """The metrics that it takes; no function or label begins like them."""
    return set(re.findall(r"\btfhet_\w+", expression))


def test_every_number_is_shown_and_no_other_is_asked_for():
    shown = set.union(*(names(expression) for _, expression, _ in EXPRESSIONS))
    assert shown == set(BY_NAME)
    (query,) = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    assert names(query) <= set(BY_NAME)


@pytest.mark.parametrize(("title", "expression", "legend"), EXPRESSIONS)
def test_counters_are_shown_as_rates_and_gauges_are_not(title, expression, legend, place_of):
    known = {*labels(place_of("t1", 0))}
    for name, given, span in re.findall(r"(tfhet_\w+)\{(.*?)\}(\[\$\w+\])?", expression):
        assert (BY_NAME[name].kind == "counter") == bool(span)
        assert bool(re.search(rf"(rate|increase)\({name}\b", expression)) == bool(span)
        assert set(re.findall(r"(\w+)[=!]", given)) == {"training_job"} <= known
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= known
    assert expression.count("(") == expression.count(")") and expression.count("{") == expression.count("}")


def test_the_panels_do_not_overlap_and_fit_the_grid():
    places: list[dict[str, Any]] = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    for place in places:
        assert place["x"] >= 0 and place["y"] >= 0 and place["w"] > 0 and place["h"] > 0
        assert place["x"] + place["w"] <= 24
    for one, other in itertools.combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


def test_panels_have_numbers_of_their_own_and_say_what_they_show():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] in ("timeseries", "stat") and panel["description"].endswith(".")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        ids = [target["refId"] for target in panel["targets"]]
        assert len(set(ids)) == len(ids)
    assert [each["name"] for each in DASHBOARD["templating"]["list"]] == ["datasource", "job"]
