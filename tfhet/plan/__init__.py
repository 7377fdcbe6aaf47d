"""Measurements and prices to a cluster, a cut and a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.plan.ceiling import Resource, Where
    from tfhet.plan.decision import make_plan
    from tfhet.plan.host import ClusterShape, HostType
    from tfhet.plan.interval import Interval
    from tfhet.plan.money import Candidate, Market, PlanLimits
    from tfhet.plan.prediction import Layout, Prediction, best_layout, predict
    from tfhet.plan.result import Plan
    from tfhet.plan.search import Space
    from tfhet.plan.wire import Stream, Wire, wire_of
    from tfhet.plan.workload import CutCost, PipelineCost, Trainer, Workload

__all__ = [
    "Candidate",
    "ClusterShape",
    "CutCost",
    "HostType",
    "Interval",
    "Layout",
    "Market",
    "PipelineCost",
    "Plan",
    "PlanLimits",
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

lazy.names_on_demand(
    __name__,
    {
        "ceiling": "Resource Where",
        "decision": "make_plan",
        "host": "ClusterShape HostType",
        "interval": "Interval",
        "money": "Candidate Market PlanLimits",
        "prediction": "Layout Prediction best_layout predict",
        "result": "Plan",
        "search": "Space",
        "wire": "Stream Wire wire_of",
        "workload": "CutCost PipelineCost Trainer Workload",
    },
)
