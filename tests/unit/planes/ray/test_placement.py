"""Tasks of a data set run on data hosts first where both kinds of hosts offer CPUs, unless an operator says where."""

from __future__ import annotations

import sys
import types

import pytest

from tfhet.planes.ray import private
from tfhet.planes.ray.placement import DATA_HOSTS_FIRST, placed


def node(role: str, cpus: float, alive: bool = True) -> dict:
    return {"Alive": alive, "Labels": {"tfhet-role": role}, "Resources": {"CPU": cpus} if cpus else {}}


@pytest.mark.parametrize(
    ("nodes", "is_placed"),
    [
        ([node("data", 4), node("dnn", 1)], True),
        ([node("data", 4), node("dnn", 0)], False),
        ([node("data", 4), node("dnn", 0), node("node", 2)], True),
        ([node("dnn", 4), node("node", 2)], False),
        ([node("data", 4, alive=False), node("dnn", 1)], False),
    ],
)
def test_only_a_choice_between_hosts_is_made(monkeypatch, nodes, is_placed):
    ray = types.ModuleType("ray")
    ray.nodes = lambda: nodes
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(private, "with_options", lambda dataset, options: (dataset, options))
    assert placed("images") == (("images", DATA_HOSTS_FIRST) if is_placed else "images")


@pytest.mark.parametrize(
    ("asked", "function", "has_a_place"),
    [
        ({}, None, False),
        ({"num_cpus": 2, "scheduling_strategy": "SPREAD", "num_gpus": 0, "resources": {}}, None, False),
        ({"num_gpus": 1}, None, True),
        ({"resources": {"disk": 1}}, None, True),
        ({"label_selector": {"tfhet-role": "dnn"}}, None, True),
        ({"scheduling_strategy": object()}, None, True),
        ({}, dict, True),
    ],
)
def test_an_operator_that_says_where_it_runs_is_left_alone(asked, function, has_a_place):
    operator = types.SimpleNamespace(ray_remote_args=asked, ray_remote_args_fn=function)
    assert private._has_a_place(operator) is has_a_place
