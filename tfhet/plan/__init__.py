"""Measurements and prices to a cluster, a cut and a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfhet.plan.ceiling import Resource, Where
    from tfhet.plan.decision import Cheaper, make_plan
    from tfhet.plan.host import Cluster, HostType
    from tfhet.plan.interval import Interval
    from tfhet.plan.money import Candidate, Limits, Market
    from tfhet.plan.prediction import Layout, Prediction, best_layout, predict
    from tfhet.plan.result import Plan
    from tfhet.plan.search import Space
    from tfhet.plan.wire import Stream, Wire, wire_of
    from tfhet.plan.workload import CutCost, PipelineCost, Trainer, Workload

__all__ = [
    "Candidate",
    "Cheaper",
    "Cluster",
    "CutCost",
    "HostType",
    "Interval",
    "Layout",
    "Limits",
    "Market",
    "PipelineCost",
    "Plan",
    "Prediction",
    "Resource",
    "Space",
    "Stream",
    "Trainer",
    "Where",
    "Wire",
    "Workload",
    "best_layout",
    "make_plan",
    "predict",
    "wire_of",
]

_HOME = {
    "Candidate": "money",
    "Cheaper": "decision",
    "Cluster": "host",
    "CutCost": "workload",
    "HostType": "host",
    "Interval": "interval",
    "Layout": "prediction",
    "Limits": "money",
    "Market": "money",
    "PipelineCost": "workload",
    "Plan": "result",
    "Prediction": "prediction",
    "Resource": "ceiling",
    "Space": "search",
    "Stream": "wire",
    "Trainer": "workload",
    "Where": "ceiling",
    "Wire": "wire",
    "Workload": "workload",
    "best_layout": "prediction",
    "make_plan": "decision",
    "predict": "prediction",
    "wire_of": "wire",
}


def __getattr__(name: str) -> Any:
    # The command line asks for the options of every command.
    if name not in _HOME:
        raise AttributeError(name)
    import importlib

    return getattr(importlib.import_module(f"tfhet.plan.{_HOME[name]}"), name)
